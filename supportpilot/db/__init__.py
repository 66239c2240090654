"""SQL by table family. `connect()` is the door the reference document opens without settings."""

from supportpilot.config import get_settings
from supportpilot.db.pool import Connection
from supportpilot.db.pool import connect as _connect
from supportpilot.errors import Misconfigured

__all__ = ["connect"]


def connect(url: str | None = None) -> Connection:
    """Open one autocommit connection that returns dict rows; the caller closes it.

    Raises:
        Misconfigured: no URL is given or configured.
        Unavailable: nothing answers there.
    """
    target = url or get_settings().database_url
    if not target:
        raise Misconfigured("no database: set DATABASE_URL or start one with `supportpilot up`")
    return _connect(target)
