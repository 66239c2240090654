"""Who may use the pages and the API: given a token once, known by its hash."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import get_args

from supportpilot.db import approvers, audit
from supportpilot.db.approvers import Approver, Role
from supportpilot.db.pool import Database
from supportpilot.desk.rules import folded_name
from supportpilot.errors import Misconfigured, NotFound, Refused

__all__ = ["ROLES", "Admitted", "Approver", "Role", "add", "allows", "by_token", "list_approvers", "revoke"]

ROLES: tuple[Role, ...] = get_args(Role)        # each may do what those before it may
NAME_CHARS = 60
TOKEN_PREFIX = "spt_"  # noqa: S105 -- how a token begins, so that a scanner of code finds one that leaked


@dataclass(frozen=True)
class Admitted:
    """A person and the token, which is shown this once."""

    approver: Approver
    token: str


def hashed(token: str) -> str:
    """Return what is stored of a token; it is random and long, so a plain hash is enough."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def allows(role: str, needed: Role) -> bool:
    """Say whether a role includes what another one may do."""
    return role in ROLES and ROLES.index(role) >= ROLES.index(needed)


def add(db: Database, name: str, role: str, by: str) -> Admitted:
    """Admit a person and return the token; it is not stored and cannot be shown again.

    Raises:
        Misconfigured: the name is empty, too long or not printable, or there is no such role.
        Refused: that name has a token already.
    """
    shown = " ".join(name.split())
    if not shown or len(shown) > NAME_CHARS or not shown.isprintable():
        raise Misconfigured(f"the name must have 1 to {NAME_CHARS} printable characters")
    if role not in ROLES:
        raise Misconfigured(f"the role must be one of {', '.join(ROLES)}")
    token = TOKEN_PREFIX + secrets.token_urlsafe(32)
    with db.transaction() as conn:
        made = approvers.put(conn, shown, folded_name(shown), role, hashed(token))
        if made is None:
            raise Refused(f"{shown} has a token already; take it away first: supportpilot approver revoke")
        audit.record(conn, by, "approver.added", subject=made.id, detail={"name": shown, "role": role})
    return Admitted(made, token)


def revoke(db: Database, name: str, by: str) -> Approver:
    """Take a person's token and sessions away.

    Raises:
        NotFound: nobody of that name has a token.
    """
    with db.transaction() as conn:
        gone = approvers.revoke(conn, folded_name(name))
        if gone is None:
            raise NotFound(f"nobody called {' '.join(name.split())} has a token; see `supportpilot approver list`")
        audit.record(conn, by, "approver.revoked", subject=gone.id, detail={"name": gone.name, "role": gone.role})
    return gone


def list_approvers(db: Database) -> list[Approver]:
    """Return everybody, those who are revoked too."""
    with db.connection() as conn:
        return approvers.rows(conn)


def by_token(db: Database, token: str) -> Approver | None:
    """Return whose token it is."""
    with db.connection() as conn:
        return approvers.by_token(conn, hashed(token))


# sessions -------------------------------------------------------------------------------------------

def log_in(db: Database, token: str, hours: float) -> tuple[Approver, str] | None:
    """Open a session for a token and return the person and the session's secret; None if nobody has that token."""
    secret = secrets.token_urlsafe(32)
    with db.transaction() as conn:
        approver = approvers.by_token(conn, hashed(token))
        if approver is None:
            return None
        approvers.open_session(conn, approver.id, hashed(secret), hours)
    return approver, secret


def by_session(db: Database, secret: str) -> Approver | None:
    """Return whose session it is, None if it is over or the token was taken away."""
    with db.connection() as conn:
        return approvers.by_session(conn, hashed(secret))


def log_out(db: Database, secret: str) -> None:
    """End a session."""
    with db.transaction() as conn:
        approvers.close_session(conn, hashed(secret))


# forms ----------------------------------------------------------------------------------------------

def spend_form(db: Database, key: str) -> bool:
    """Note that a form was sent; False if it was before."""
    with db.transaction() as conn:
        return approvers.spend_form(conn, hashed(key))


def give_form_back(db: Database, key: str) -> None:
    """Let a form be sent again: what it asked for was not done."""
    with db.transaction() as conn:
        approvers.give_form_back(conn, hashed(key))
