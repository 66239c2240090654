"""Ids in a path: what is none is not asked of the database."""

from __future__ import annotations

import re

from fastapi import Request

from supportpilot.errors import NotFound

_ID = re.compile(r"[A-Za-z0-9]{1,40}", re.ASCII)


def plain_ids(request: Request) -> None:
    """Pass a request on whose path has only letters and digits where an id stands.

    Raises:
        NotFound: it has something else there.
    """
    for value in request.path_params.values():
        if not _ID.fullmatch(str(value)):
            raise NotFound("no such page")
