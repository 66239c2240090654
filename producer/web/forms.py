"""Forms: read bounded, believed only from the session's own page, obeyed once."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import parse_qsl

from fastapi import Depends, Request

from producer.web.body import read_body
from producer.web.session import csrf_of, secret_of
from supportpilot.db.pool import Database
from supportpilot.errors import Forbidden, Unusable
from supportpilot.service import approvers

FORM_BYTES = 200_000
FIELDS = 50
FORM_TYPE = "application/x-www-form-urlencoded"
_KEY = re.compile(r"[A-Za-z0-9_-]{16,64}")


class FormRefused(Forbidden):
    """The form was not made for this session: another site's, or one from before the last login."""


@dataclass(frozen=True)
class Form:
    """What was sent. `key` is the same when the same form is sent twice, and one session's only."""

    fields: dict[str, str]
    key: str

    def text(self, name: str, limit: int = 20_000) -> str:
        """Return a field, "" if it is missing; lines end as the database has them.

        Raises:
            Unusable: it is longer than `limit`, or has characters that cannot be stored.
        """
        value = self.fields.get(name, "").replace("\r\n", "\n")
        if len(value) > limit:
            raise Unusable(f"{name} is longer than {limit} characters")
        if "\x00" in value or any("\ud800" <= sign <= "\udfff" for sign in value):
            raise Unusable(f"{name} has characters that cannot be stored")
        return value


async def same_site(request: Request) -> Form:
    """Return a form that needs no session (login): not from another site, as far as the browser says.

    Raises:
        FormRefused: it is.
        Unusable: it is no form, too large, or malformed.
    """
    if request.headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
        raise FormRefused("the form came from another site")
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM_TYPE:
        raise Unusable(f"a form is {FORM_TYPE}")
    body = await read_body(request, FORM_BYTES)
    if body is None:
        raise Unusable(f"the form is larger than {FORM_BYTES} bytes")
    try:
        fields = dict(parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=FIELDS))
    except ValueError:      # not UTF-8, or too many fields
        raise Unusable("the form cannot be read") from None
    key = fields.get("form_key", "")
    return Form(fields, f"{secret_of(request)}\n{key}" if _KEY.fullmatch(key) else "")


async def checked(request: Request) -> Form:
    """Return a form of the session's own page.

    Raises:
        FormRefused: the token is missing or another session's.
        Unusable: as `same_site`.
    """
    form = await same_site(request)
    expected = csrf_of(request)
    if not expected or not hmac.compare_digest(form.fields.get("csrf", "").encode("utf-8", "replace"), expected.encode()):
        raise FormRefused("the form's token is missing or another session's")
    return form


FormOf = Annotated[Form, Depends(checked)]


@contextmanager
def once(db: Database, form: Form) -> Iterator[bool]:
    """Lend True the first time a form is sent, False every time after.

    If the block raises, the form counts as not sent. A process killed in between leaves it sent: the page says so, and a
    look at it shows what was done.

    Raises:
        Unusable: the form has no key.
    """
    if not form.key:
        raise Unusable("the form has no key; reload the page")
    first = approvers.spend_form(db, form.key)
    try:
        yield first
    except BaseException:
        if first:
            approvers.give_form_back(db, form.key)
        raise
