"""Did it arrive? The mail server's folder of sent mails, asked before anything is sent a second time."""

from __future__ import annotations

import imaplib

from imap_tools.errors import ImapToolsError

from supportpilot.channels.imap import opened
from supportpilot.channels.letter import KEY_FIELD, Letter
from supportpilot.errors import Transient
from supportpilot.mail.folders import Folder

NEWEST = 20     # of the mails that a server finds; some find far too many


class CannotAsk(Transient):
    """The folder could not be read."""


def holds(folder: Folder, letter: Letter, seconds: float) -> bool:
    """Say whether a mail lies in the folder, by its Message-ID or by our own field.

    The server's search only proposes: servers exist that answer any search for a field with everything.

    Raises:
        CannotAsk: no answer; nothing is known.
    """
    try:
        with opened(folder, seconds) as box:
            box.folder.set(folder.name, readonly=True)
            uids = [uid for name, value in (("Message-ID", letter.message_id), (KEY_FIELD, letter.key_hash))
                    for uid in list(box.uids(f'HEADER {name} "{value}"', charset=None))[-NEWEST:]]
            return any(_is_it(_head(box.client, uid), letter) for uid in dict.fromkeys(uids))
    except (imaplib.IMAP4.error, ImapToolsError, OSError) as error:
        said = " ".join(str(error).split())[:150].replace(folder.password, "***")
        raise CannotAsk(f"{folder.id}: {type(error).__name__}: {said}") from None


def _head(client: imaplib.IMAP4, uid: str) -> bytes:
    status, data = client.uid("FETCH", uid, f"(BODY.PEEK[HEADER.FIELDS (MESSAGE-ID {KEY_FIELD})])")
    if status != "OK":
        raise imaplib.IMAP4.error(f"the server does not show mail {uid}")
    return next((bytes(item[1]) for item in data if isinstance(item, tuple)), b"")


def _is_it(head: bytes, letter: Letter) -> bool:
    flat = b" ".join(head.split())
    return letter.message_id.encode() in flat or letter.key_hash.encode() in flat
