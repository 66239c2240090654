"""The few files that pages load: read once, known by their contents' hash, kept by the browser."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from fastapi import APIRouter, Request, Response

router = APIRouter()

TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
FOR_EVER = "public, max-age=31536000, immutable"
FOR_A_WHILE = "public, max-age=300"


@dataclass(frozen=True)
class Asset:
    """One file."""

    body: bytes
    type: str
    version: str


@lru_cache(maxsize=1)
def assets() -> dict[str, Asset]:
    """Return every file of `static/` by name."""
    found = {}
    for file in files("producer.web").joinpath("static").iterdir():
        kind = TYPES.get("." + file.name.rpartition(".")[2])
        if kind:
            body = file.read_bytes()
            found[file.name] = Asset(body, kind, hashlib.sha256(body).hexdigest()[:12])
    return found


def address(name: str) -> str:
    """Return where a file is; a changed file has another address. Raises KeyError if there is no such file."""
    return f"/static/{name}?v={assets()[name].version}"


@router.api_route("/static/{name}", methods=["GET", "HEAD"])
def static(name: str, request: Request) -> Response:
    """Return a file; under the address of this very version it may be kept for ever."""
    asset = assets().get(name)
    if asset is None:
        return Response(status_code=404)
    current = request.query_params.get("v") == asset.version
    headers = {"cache-control": FOR_EVER if current else FOR_A_WHILE, "etag": f'"{asset.version}"'}
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    return Response(asset.body, media_type=asset.type, headers=headers)
