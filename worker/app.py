"""The Celery instance and its settings. Imports no task: the producer reaches this module and must not reach them.

The configuration is read when it is first needed, so importing this module asks for nothing.
"""

from __future__ import annotations

from typing import Any

import click
from celery import Celery
from kombu import Connection, Exchange, Queue

from supportpilot.config import Settings, get_settings
from supportpilot.errors import Misconfigured
from supportpilot.notify.targets import require_known
from worker.queues import QUEUES, ROUTES, TICKETS

TASK_MODULES = ("worker.tasks.ticket", "worker.tasks.reply", "worker.tasks.memory", "worker.tasks.desk", "worker.tasks.kb",
                "worker.tasks.privacy", "worker.tasks.channel", "worker.tasks.approval", "worker.tasks.mail")
WORKER_SOCKET_SECONDS = 5.0     # must stay above the 1 s that the transport's blocking pop waits
VISIBILITY_SECONDS = 600        # far above every countdown; what is lost meanwhile comes back through the sweeper


class Unconfigured(Misconfigured, click.ClickException):
    """Misconfigured that Celery's own command line shows as one line instead of a traceback."""

    exit_code = 2


def configuration(settings: Settings) -> dict[str, Any]:
    """Return Celery's settings.

    Raises:
        Misconfigured: no broker is configured, or one that Celery cannot use.
    """
    if not settings.broker:
        raise Misconfigured("no broker: set REDIS_URL or BROKER_URL, or start everything with `supportpilot up`")
    check_broker(settings.broker)
    return {
        "broker_url": settings.broker,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_connection_timeout": WORKER_SOCKET_SECONDS,
        "broker_transport_options": _transport_options(settings.broker, WORKER_SOCKET_SECONDS),
        "accept_content": ["json"],
        "task_serializer": "json",
        "event_serializer": "json",
        "task_ignore_result": True,
        "task_store_errors_even_if_ignored": False,
        "task_acks_late": False,               # Postgres brings work back; late acks only multiply it (facts.md)
        "worker_prefetch_multiplier": 1,
        "worker_send_task_events": True,
        "task_send_sent_event": True,          # arguments are ids only, so the events hold nothing else
        "task_queues": [Queue(name, Exchange(name, type="direct"), routing_key=name) for name in QUEUES],
        "task_default_queue": TICKETS,
        "task_create_missing_queues": False,   # a mistyped queue is an error, not a place that nobody reads
        "task_routes": {name: {"queue": queue} for name, queue in ROUTES.items()},
        "beat_scheduler": "worker.schedule:DeskScheduler",
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
        "enable_utc": True,
        "timezone": "UTC",
    }


def check_broker(address: str) -> None:
    """Raise Misconfigured if Celery cannot use the address; asks nobody, and shows none of it but the scheme."""
    scheme = address.partition("://")[0]
    try:
        Connection(address).get_transport_cls()
    except KeyError:
        problem = f"Celery knows no {scheme}://"
    except (ImportError, NameError) as error:
        problem = f"{scheme}:// needs a package that is not installed: {error.name}"
    except ValueError:
        problem = f"not an address such as {scheme}://host:port/"
    else:
        return
    raise Misconfigured(f"BROKER_URL or REDIS_URL: {problem}")


def _transport_options(broker: str, seconds: float) -> dict[str, Any]:
    if not broker.startswith(("redis", "rediss", "sentinel")):
        return {}
    return {
        "visibility_timeout": VISIBILITY_SECONDS, "socket_timeout": seconds, "socket_connect_timeout": seconds,
        "socket_keepalive": True,
        "queue_order_strategy": "sorted",      # approvals, delivery, tickets: the alphabet is the wanted order
    }


def publisher_app(settings: Settings, socket_seconds: float) -> Celery:
    """Return an instance that only sends: no task, short waits, no retries.

    Raises:
        Misconfigured: no broker is configured.
    """
    found = configuration(settings)
    options = _transport_options(found["broker_url"], socket_seconds) | {"max_retries": 1, "interval_start": 0}
    sender = Celery("supportpilot-publisher", set_as_current=False)
    sender.config_from_object(found | {
        "broker_connection_timeout": socket_seconds, "broker_transport_options": options,
        "broker_pool_limit": 1, "task_publish_retry": False,
    })
    return sender


def _configuration() -> dict[str, Any]:
    try:
        settings = get_settings()
        require_known(settings.notify_targets())
        return configuration(settings)
    except Misconfigured as error:
        raise Unconfigured(str(error)) from None


app = Celery("supportpilot", include=[*TASK_MODULES, "worker.qos"], task_cls="worker.base:DeskTask",
             events="worker.events:WorkerEvents")
app.add_defaults(_configuration)
