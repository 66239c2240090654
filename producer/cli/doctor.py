"""`doctor`: is everything there that a ticket needs? One line a check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated

import httpx
import typer
from celery import Celery
from kombu import Connection
from kombu.exceptions import KombuError, OperationalError

from producer.cli.screen import line, print_json, say
from producer.cli.session import current_settings, database_url
from supportpilot.channels import smtp
from supportpilot.config import Settings
from supportpilot.db import embeddings, leases
from supportpilot.db.migrate import pending
from supportpilot.db.pool import connect
from supportpilot.desk.lease import CLOCK_TOLERANCE_SECONDS, machine_clock
from supportpilot.errors import Misconfigured, SupportPilotError
from supportpilot.notify.targets import require_known
from supportpilot.service import delivery_mail
from supportpilot.service.notices import latest_by_target
from worker.app import publisher_app
from worker.queues import QUEUES

SOCKET_SECONDS = 2.0
PING_SECONDS = 2.0
SMTP_SECONDS = 10.0
QUEUE_WARNING = 10_000
NOTIFY_HOURS = 24.0


@dataclass(frozen=True)
class Check:
    """One line of the report."""

    name: str
    ok: bool
    detail: str


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Check database, migrations, broker, workers, queues, model, clock, notifications and mail server; exit 1 if anything fails."""
    settings = current_settings()
    database_url(settings)
    checks = [check for name, look in CHECKS for check in attempt(name, look, settings)]
    if as_json:
        print_json([asdict(check) for check in checks])
    else:
        for check in checks:
            say(f"{'ok  ' if check.ok else 'FAIL'}  {check.name:<11} {line(check.detail, 160)}")
    if not all(check.ok for check in checks):
        raise typer.Exit(1)


def attempt(name: str, look: Callable[[Settings], list[Check]], settings: Settings) -> list[Check]:
    """Run one look; a failure becomes its line."""
    try:
        return look(settings)
    except (SupportPilotError, KombuError, OperationalError, httpx.HTTPError, OSError) as error:
        return [Check(name, False, str(error) or type(error).__name__)]


def _database(settings: Settings) -> list[Check]:
    with connect(database_url(settings)) as conn:
        return [Check("database", True, f"PostgreSQL {conn.info.server_version // 10_000} at {conn.info.host}")]


def _migrations(settings: Settings) -> list[Check]:
    missing = pending(database_url(settings))
    detail = f"missing: {', '.join(missing)}; run `supportpilot migrate`" if missing else "up to date"
    return [Check("migrations", not missing, detail)]


def _clock(settings: Settings) -> list[Check]:
    with connect(database_url(settings)) as conn:
        ahead = leases.clock_ahead(conn, machine_clock)
    return [Check("clock", abs(ahead) <= CLOCK_TOLERANCE_SECONDS, f"this machine is {ahead * 1000:+.0f} ms from Postgres")]


def _broker(settings: Settings) -> list[Check]:
    with _celery(settings) as app, app.connection_for_write() as connection:
        try:
            connection.ensure_connection(max_retries=1, timeout=SOCKET_SECONDS)
        except connection.connection_errors as error:
            return [Check("broker", False, f"away: {line(error, 100)}; start it with `supportpilot up`")]
        return [Check("broker", True, connection.as_uri())]


def _queues(settings: Settings) -> list[Check]:
    with _celery(settings) as app, app.connection_for_write() as connection:
        try:
            lengths = {name: _length(connection, name) for name in QUEUES}
        except connection.connection_errors as error:
            return [Check("queues", False, f"broker away: {line(error, 100)}")]
    shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
    return [Check("queues", max(lengths.values()) < QUEUE_WARNING, shown)]


def _length(connection: Connection, queue: str) -> int:
    """Return how many tasks wait; Redis knows no empty queue, and other brokers close the channel over a missing one."""
    with connection.channel() as channel:
        try:
            return int(channel.queue_declare(queue, passive=True).message_count)
        except connection.channel_errors:
            return 0


def _workers(settings: Settings) -> list[Check]:
    with _celery(settings) as app:
        try:
            replies = app.control.inspect(timeout=PING_SECONDS).active_queues() or {}
        except app.connection_for_write().connection_errors as error:
            return [Check("workers", False, f"broker away: {line(error, 100)}")]
    readers: dict[str, list[str]] = {name: [] for name in QUEUES}
    for worker, queues in replies.items():
        for queue in queues:
            readers.setdefault(queue["name"], []).append(worker)
    return [Check(f"{name}", bool(found), f"read by {', '.join(sorted(found))}" if found else
                  "no worker reads this queue: start `supportpilot up`") for name, found in readers.items()]


def _celery(settings: Settings) -> Celery:
    if not settings.broker:
        raise Misconfigured("no broker: start it with `supportpilot up`, or set REDIS_URL")
    app = publisher_app(settings, SOCKET_SECONDS)
    app.conf.broker_pool_limit = 0      # asking takes a second connection; from a pool of one it would wait for ever
    return app


def _model(settings: Settings) -> list[Check]:
    base = settings.openai_base_url
    if not base and not settings.openai_api_key:
        raise Misconfigured("no model: `supportpilot up` starts the offline one, or set OPENAI_API_KEY / OPENAI_BASE_URL")
    url = f"{(base or 'https://api.openai.com/v1').rstrip('/')}/models"
    key = {"Authorization": f"Bearer {settings.openai_api_key}"} if settings.openai_api_key else {}
    answer = httpx.get(url, headers=key, timeout=5.0)
    if answer.status_code != httpx.codes.OK:
        return [Check("llm", False, f"{url} answers {answer.status_code}: check OPENAI_BASE_URL and OPENAI_API_KEY")]
    offline = " (offline rule model, not an LLM)" if settings.llm_model.startswith("offline-rules") else ""
    return [Check("llm", True, f"{settings.llm_model} at {base or 'api.openai.com'}{offline}")]


def _embeddings(settings: Settings) -> list[Check]:
    """Say how far the second search leg is; pieces still missing are no failure, they follow in the background."""
    model = settings.embedding_model
    if not model:
        return []
    with connect(database_url(settings)) as conn:
        embeddings.check_extension(conn)
        if not embeddings.has_table(conn):
            return [Check("embeddings", True, f"{model}: nothing embedded yet; the background worker begins within minutes")]
        done, pieces = embeddings.coverage(conn, model)
    return [Check("embeddings", True, f"{model}: {done} of {pieces} pieces of articles embedded")]


def _notify(settings: Settings) -> list[Check]:
    """Say who is told of approvals; a target that did not take the last message is a failure."""
    urls = settings.notify_targets()
    if not urls:
        return [Check("notify", True, "NOTIFY_URLS is not set: nobody is told of refunds to approve")]
    require_known(urls)
    with connect(database_url(settings)) as conn:
        latest = latest_by_target(conn, settings, NOTIFY_HOURS)
    broken = [f"{number} {found['service']}: {found['error']}" for number, found in enumerate(latest, 1)
              if found.get("state") == "failed"]
    reached = sum(found.get("state") == "sent" for found in latest)
    shown = f"{len(urls)} targets, {reached} reached in the last {NOTIFY_HOURS:g} hours"
    return [Check("notify", not broken, "; ".join([shown, *broken]))]


def _smtp(settings: Settings) -> list[Check]:
    """Log in where replies to mails are handed in; nothing is sent."""
    if not settings.smtp_url:
        return []
    post = delivery_mail.post_of(settings)
    with smtp.opened(post.server, SMTP_SECONDS, post.sender[1].rpartition("@")[2]):
        pass
    login = f"as {post.server.user}" if post.server.user else "without login"
    return [Check("smtp", True, f"{post.server} lets us in {login} ({post.server.security}); mails come from {post.sender[1]}")]


CHECKS: list[tuple[str, Callable[[Settings], list[Check]]]] = [
    ("database", _database), ("migrations", _migrations), ("clock", _clock), ("broker", _broker), ("workers", _workers),
    ("queues", _queues), ("llm", _model), ("embeddings", _embeddings), ("notify", _notify),
    ("smtp", _smtp),
]
