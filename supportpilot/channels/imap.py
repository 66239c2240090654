"""A connection to an IMAP server, logged in, whatever the server is particular about."""

from __future__ import annotations

import imaplib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import imap_tools
from imap_tools.errors import ImapToolsError

from supportpilot.mail.folders import Folder

log = logging.getLogger(__name__)

# 163 and 126 refuse SELECT to a client that has not said its name.
CLIENT_ID = '("name" "SupportPilot" "version" "1" "vendor" "SupportPilot")'


@contextmanager
def opened(folder: Folder, seconds: float) -> Iterator[Any]:
    """Log in; the folder is not opened yet.

    Raises:
        IMAP4.error, ImapToolsError, OSError: as the libraries do.
    """
    kinds = {"imaps": imap_tools.MailBox, "imap": imap_tools.MailBoxStartTls, "imap+insecure": imap_tools.MailBoxUnencrypted}
    box = kinds[folder.security](folder.host, folder.port, timeout=seconds)
    try:
        if folder.user.isascii() and folder.password.isascii():
            box.login(folder.user, folder.password, initial_folder=None)
        else:
            box.login_utf8(folder.user, folder.password, initial_folder=None)
        _say_name(box.client)
        yield box
    finally:
        try:
            box.logout()
        except (imaplib.IMAP4.error, ImapToolsError, OSError):
            log.debug("mailbox %s: no goodbye", folder.id)


def _say_name(client: imaplib.IMAP4) -> None:
    """Send ID after the login, whether the server lists it or not: 163 lists it only then."""
    imaplib.Commands.setdefault("ID", ("AUTH", "SELECTED"))
    try:
        client._simple_command("ID", CLIENT_ID)  # imaplib has no other way
    except imaplib.IMAP4.abort:
        raise
    except imaplib.IMAP4.error:
        log.debug("this server does not know ID")
