# Each target sets up what it needs: only Python >= 3.11, git and make have to be there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-unit peers chaos lint seed pins clean
JOBS ?= auto
SEED ?= 1
DURATION ?= 600

help:  ## show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(READY)  ## make the virtual environment and install everything

$(READY): pyproject.toml requirements-dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $(READY)

demo: $(READY)  ## the main job from end to end, narrated, in under three minutes
	$(BIN)/supportpilot demo

test: $(READY)  ## unit tests and integration tests (they start their own servers); JOBS=0: one process
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup --no-loadscope-reorder

peers:  ## Debian's Chromium, a Chinese font and Dovecot, for the tests that are skipped without them (as root)
	apt-get -qq update
	DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends chromium fonts-wqy-zenhei dovecot-imapd >/dev/null

test-unit: $(READY)  ## unit tests only, no servers
	$(BIN)/python -m pytest tests/unit

chaos: $(READY)  ## a storm of kills, freezes and outages over the real processes: SEED=1 DURATION=600 (seconds)
	PYTHONPATH=tests $(BIN)/python -m chaos --seed $(SEED) --duration $(DURATION)

lint: $(READY)  ## ruff, mypy --strict, import contracts
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

seed: $(READY)  ## load the demo data into the database that `up` runs (or DATABASE_URL)
	$(BIN)/supportpilot seed --yes

pins: $(READY)  ## compile the pins from pyproject.toml anew
	$(BIN)/pip-compile --quiet --strip-extras --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-annotate --no-header --output-file requirements.txt pyproject.toml
	$(BIN)/pip-compile --quiet --strip-extras --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-annotate --no-header --extra local --extra dev --output-file requirements-dev.txt pyproject.toml

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache *.egg-info
