"""One mail to the mail server, and each answer sorted by one question: can it have arrived?

Before the text is sent nothing can have. From then on only the server's own word counts; a connection that breaks, an
answer that cannot be read or none at all leave it open.
"""

from __future__ import annotations

import contextlib
import smtplib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from supportpilot.channels.letter import Letter
from supportpilot.desk.outbox import SendResult
from supportpilot.errors import SupportPilotError
from supportpilot.mail.servers import Server

LONGEST_ERROR = 300
GO_AHEAD = 354
# The server does not let us in: somebody will repair that, the mail is not to blame.
LOCKED_OUT = frozenset({454, 504, 530, 534, 535, 538})


class Refused(SupportPilotError):
    """The server said no before it had the text; `final`: to this mail, for good."""

    def __init__(self, text: str, *, final: bool) -> None:
        super().__init__(text[:LONGEST_ERROR])
        self.final = final


class WholeLines:
    """A connection's answers, of which only whole lines count: smtplib takes the first half of one for all of it."""

    def __init__(self, lines: BinaryIO) -> None:
        self._lines = lines

    def readline(self, limit: int = -1) -> bytes:
        """Return a line, or nothing if the connection ended within it."""
        line = self._lines.readline(limit)
        return line if line.endswith(b"\n") or len(line) == limit else b""

    def close(self) -> None:
        """Close it."""
        self._lines.close()


def send(server: Server, letter: Letter, seconds: float, may_go: Callable[[], bool]) -> SendResult:
    """Hand a mail in; `may_go` is asked at the last moment before the text, and remembers that it was.

    Args:
        server: where to.
        letter: what.
        seconds: for each step before the text, and for the text with its answer.
        may_go: False stops here.
    """
    try:
        with opened(server, seconds, letter.sender.rpartition("@")[2]) as smtp:
            left_out = _envelope(smtp, letter)
            if not may_go():
                return SendResult("retry", "stopped before the text: the claim ran out, or it must not be sent any more")
            return _text(smtp, letter, seconds, left_out)
    except Refused as error:
        return SendResult("give_up" if error.final else "retry", str(error))


@contextmanager
def opened(server: Server, seconds: float, name: str) -> Iterator[smtplib.SMTP]:
    """Connect and log in; the certificate is checked. On the way out the server is not waited for.

    Raises:
        Refused: it is away, or does not let us in; never final.
    """
    smtp: smtplib.SMTP | None = None
    try:
        with _named(server):
            smtp = _connected(server, seconds, name)
            _let_in(smtp, server)
        yield smtp
        with contextlib.suppress(OSError, smtplib.SMTPException):
            smtp.putcmd("quit")
    finally:
        if smtp is not None:
            smtp.close()


@contextmanager
def _named(server: Server) -> Iterator[None]:
    """Turn what goes wrong on the way in into one line that says what to look at."""
    try:
        yield
    except smtplib.SMTPAuthenticationError as error:
        raise Refused(f"{server}: {_said(error.smtp_code, error.smtp_error)}: are user and password in SMTP_URL still right?",
                      final=False) from None
    except smtplib.SMTPResponseException as error:
        raise Refused(f"{server}: {_said(error.smtp_code, error.smtp_error)}", final=False) from None
    except ssl.SSLCertVerificationError as error:
        raise Refused(f"{server}: certificate refused: {error.verify_message}", final=False) from None
    except (smtplib.SMTPException, OSError, UnicodeError) as error:
        raise Refused(f"{server}: no connection: {_brief(error)}", final=False) from None


def _connected(server: Server, seconds: float, name: str) -> smtplib.SMTP:
    if server.security == "tls":
        return smtplib.SMTP_SSL(server.host, server.port, name, timeout=seconds, context=ssl.create_default_context())
    return smtplib.SMTP(server.host, server.port, name, timeout=seconds)


def _let_in(smtp: smtplib.SMTP, server: Server) -> None:
    smtp.ehlo_or_helo_if_needed()
    if server.security == "starttls":
        if not smtp.has_extn("starttls"):
            raise Refused(f"{server} offers no STARTTLS, which SMTP_URL requires (starttls=off does without)", final=False)
        smtp.starttls(context=ssl.create_default_context())
        smtp.ehlo_or_helo_if_needed()
    if server.user:
        smtp.login(server.user, server.password)


def _envelope(smtp: smtplib.SMTP, letter: Letter) -> list[str]:
    """Name sender and recipients; return what was said about those that are left out.

    The first recipient is the one the mail is for: refused for now, nobody gets it yet, so that it leaves once for
    all; refused for good, the others still get it.

    Raises:
        Refused: nobody is left to take it.
    """
    with _named_step("before the text"):
        code, text = smtp.mail(letter.sender, [f"size={len(letter.raw)}"] if smtp.has_extn("size") else [])
        if not 200 <= code < 300:
            raise Refused(f"from {letter.sender}: {_said(code, text)}", final=_is_final(code))
        found = [(address, *smtp.rcpt(address)) for address in letter.recipients]
    answers = [(code, f"{address}: {_said(code, text)}") for address, code, text in found]
    taken = [code for code, _ in answers if 200 <= code < 300]
    first, said = answers[0]
    if not taken or not (200 <= first < 300 or _is_final(first)):
        raise Refused("; ".join(text for _, text in answers) if not taken else said,
                      final=all(_is_final(code) for code, _ in answers))
    return [text for code, text in answers if not 200 <= code < 300]


def _text(smtp: smtplib.SMTP, letter: Letter, seconds: float, left_out: list[str]) -> SendResult:
    if smtp.sock is not None:
        smtp.file = WholeLines(smtp.file or smtp.sock.makefile("rb"))
    with _ends_after(smtp, seconds):
        with _named_step("before the text"):
            code, text = smtp.docmd("data")
        if code != GO_AHEAD:
            raise Refused(_said(code, text), final=_is_final(code))
        try:
            smtp.send(_dotted(letter.raw))
            code, text = smtp.getreply()
        except (smtplib.SMTPException, OSError, ValueError) as error:
            return SendResult("lose", f"no answer after the text: {_brief(error)}")
    if 200 <= code < 300:
        note = f"not taken for {'; '.join(left_out)}"[:LONGEST_ERROR] if left_out else None
        return SendResult("accept", note, provider_id=letter.message_id)
    event = "lose" if not 400 <= code < 600 else "give_up" if _is_final(code) else "retry"
    return SendResult(event, _said(code, text)[:LONGEST_ERROR])


@contextmanager
def _ends_after(smtp: smtplib.SMTP, seconds: float) -> Iterator[None]:
    """Cut the connection after `seconds` in all: a server that answers by drops would outlast every claim."""
    def cut() -> None:
        if smtp.sock is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(smtp.sock, socket.SHUT_RDWR)     # not SSLSocket's, which is not made for two threads

    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def _named_step(step: str) -> Iterator[None]:
    try:
        yield
    except (smtplib.SMTPException, OSError, ValueError) as error:
        raise Refused(f"{step}: {_brief(error)}", final=False) from None


def _is_final(code: int) -> bool:
    return 500 <= code < 600 and code not in LOCKED_OUT


def _dotted(raw: bytes) -> bytes:
    """Return the text as it travels: dots doubled, a dot at its end. Its lines end in CRLF already."""
    lines = (b"." + line if line.startswith(b".") else line for line in raw.split(b"\r\n"))
    body = b"\r\n".join(lines)
    return body + (b"" if body.endswith(b"\r\n") else b"\r\n") + b".\r\n"


def _said(code: int, text: bytes | str) -> str:
    shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return f"{code} {' '.join(shown.split())}".strip()[:200]


def _brief(error: BaseException) -> str:
    return f"{type(error).__name__} {error}".strip()[:150]
