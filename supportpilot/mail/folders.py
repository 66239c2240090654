"""IMAP folders as the configuration writes them: `imaps://user:password@host:993/INBOX`."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from supportpilot.errors import Misconfigured

PORTS = {"imaps": 993, "imap": 143, "imap+insecure": 143}
FORM = "must be such as imaps://user:password@host:993/INBOX, percent-encoded"


@dataclass(frozen=True)
class Folder:
    """One folder to read; the password is never shown. `security`: the scheme of its address."""

    id: str
    security: str
    host: str
    port: int
    user: str
    name: str
    password: str = field(repr=False)


def read_folders(urls: str | None, setting: str = "IMAP_URLS") -> list[Folder]:
    """Return the folders of a setting.

    Raises:
        Misconfigured: one is no such address; the text shows none of it.
    """
    return [_folder(url, setting) for url in (urls or "").split()]


def find_folder(urls: str | None, folder_id: str) -> Folder:
    """Return the folder of that id.

    Raises:
        Misconfigured: IMAP_URLS has none.
    """
    found = next((one for one in read_folders(urls) if one.id == folder_id), None)
    if found is None:
        raise Misconfigured("IMAP_URLS has no such mailbox any more")
    return found


def _folder(url: str, setting: str) -> Folder:
    try:
        parts = urlsplit(url)
        port = parts.port or PORTS[parts.scheme]
    except (ValueError, KeyError):
        raise Misconfigured(f"{setting}: {FORM}") from None
    user, name = unquote(parts.username or ""), unquote(parts.path.strip("/")) or "INBOX"
    if not (parts.hostname and user and parts.password):
        raise Misconfigured(f"{setting}: {FORM}")
    return Folder(f"{user}/{parts.hostname}/{name}", parts.scheme, parts.hostname, port, user, name,
                  unquote(parts.password))
