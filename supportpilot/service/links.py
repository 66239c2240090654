"""The customer's link: look at what it opens, make a new one. How it is made stands in `desk/links.py`."""

from __future__ import annotations

from dataclasses import dataclass

from supportpilot.config import Settings
from supportpilot.db import audit, erasures, links
from supportpilot.db.pool import Connection, Database
from supportpilot.desk.links import opens, page_url, ticket_in
from supportpilot.errors import Misconfigured, NotFound

NO_SUCH_PAGE = "no such page"       # the same for a wrong token, another ticket's, one too old, and an erased ticket
OFF = "customers' pages are off: set CUSTOMER_LINK_SECRET"


@dataclass(frozen=True)
class Opened:
    """A ticket that a valid token opened."""

    token: str
    ticket_id: str
    contact: str


def open_link(conn: Connection, settings: Settings, token: str) -> Opened:
    """Return what a token opens.

    Raises:
        NotFound: pages are off, the token fits no ticket, or the link is too old; the text is always the same.
    """
    secrets, ticket_id = settings.link_secrets(), ticket_in(token)
    if not secrets or ticket_id is None:
        raise NotFound(NO_SUCH_PAGE)
    found = links.get(conn, ticket_id, settings.customer_link_days)
    if found is None or not opens(secrets, token, ticket_id, found.link_key) or not found.young:
        raise NotFound(NO_SUCH_PAGE)
    return Opened(token, ticket_id, found.contact)


def link_of(db: Database, settings: Settings, ticket_id: str) -> str:
    """Return the link to a customer's page.

    Raises:
        NotFound: no such ticket.
        Misconfigured: pages are off.
    """
    with db.connection() as conn:
        found = links.get(conn, ticket_id, settings.customer_link_days)
        if found is None:
            raise erasures.absent(conn, ticket_id)
    return _shown(settings, ticket_id, found.link_key)


def renew(db: Database, settings: Settings, ticket_id: str, by: str) -> str:
    """Make every link to the ticket's page that was given out worthless, and return the new one.

    Raises:
        NotFound: no such ticket.
        Misconfigured: pages are off.
    """
    with db.transaction() as conn:
        key = links.renew(conn, ticket_id)
        if key is None:
            raise erasures.absent(conn, ticket_id)
        audit.record(conn, by, "ticket.link_renewed", ticket_id=ticket_id)
    return _shown(settings, ticket_id, key)


def _shown(settings: Settings, ticket_id: str, key: str | None) -> str:
    url = page_url(settings, ticket_id, key)
    if url is None:
        raise Misconfigured(OFF)
    return url

