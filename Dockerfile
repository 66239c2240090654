# The image of web, worker, background, desk, beat, flower and migrate: one image, one command each (docker-compose.yml).
# The Python is the one that the tests run on.
FROM python:3.11.14-slim-bookworm AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv --without-pip /opt/supportpilot
WORKDIR /src
# Pins first: they change less often than the code. Wheels only, so that nothing is compiled and no compiler is needed.
COPY requirements.txt ./
RUN python -m pip --python /opt/supportpilot/bin/python install --only-binary=:all: -r requirements.txt
COPY pyproject.toml README.md LICENSE ./
COPY supportpilot ./supportpilot
COPY worker ./worker
COPY producer ./producer
RUN python -m pip install --only-binary=:all: setuptools==84.2.1 \
    && python -m pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
    && python -m pip --python /opt/supportpilot/bin/python install --no-deps /wheels/*.whl

FROM python:3.11.14-slim-bookworm
RUN groupadd --gid 10001 supportpilot \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin supportpilot \
    && install --directory --owner=10001 --group=10001 --mode=0700 /data
COPY --from=build /opt/supportpilot /opt/supportpilot
ENV PATH=/opt/supportpilot/bin:$PATH \
    LOGNAME=supportpilot \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONSAFEPATH=1 \
    DATA_DIR=/data
WORKDIR /data
USER 10001:10001
EXPOSE 8000 5555
CMD ["python", "-m", "producer.web"]
