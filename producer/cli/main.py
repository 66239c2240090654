"""The command line: the parser, and the one place where the error tree becomes exit codes.

0 done, 1 failed, 2 wrong usage or configuration, 3 refused by a rule, 130 Ctrl-C.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
from collections.abc import Sequence

import typer
from typer.main import get_command

from producer.cli import (
    approvals,
    approver,
    channels,
    chat,
    checkpoints,
    commitments,
    costs,
    customer,
    data,
    demo,
    doctor,
    email,
    evaluate,
    history,
    kb,
    letters,
    notify,
    profile,
    send,
    ticket,
    up,
)
from producer.cli.screen import complain, line
from supportpilot.errors import Misconfigured, Refused, SupportPilotError, Unusable

FAILED, WRONG, REFUSED, INTERRUPTED = 1, 2, 3, 130
OURS = (FAILED, WRONG, REFUSED, INTERRUPTED)
ERROR_CHARS = 800       # one line for a person, whatever was pasted into the command

app = typer.Typer(
    name="supportpilot", add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None,
    help="A durable customer-support worker: Celery wakes it, Postgres remembers, a human approves the refunds.",
    epilog="Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 refused by a rule.",
)
app.command("up")(up.up)
app.command("demo")(demo.demo)
app.command("migrate")(data.migrate)
app.command("seed")(data.seed)
app.command("psql", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(data.psql)
app.command("send")(send.send)
app.command("chat")(chat.chat)
ticket.app.command("history")(history.history)
ticket.app.command("replay")(history.replay)
app.add_typer(ticket.app, name="ticket")
app.add_typer(approvals.app, name="approvals")
app.add_typer(approver.app, name="approver")
app.add_typer(commitments.app, name="commitments")
app.add_typer(profile.app, name="profile")
app.add_typer(customer.app, name="customer")
app.add_typer(kb.app, name="kb")
app.add_typer(checkpoints.app, name="checkpoints")
app.add_typer(letters.inbox_app, name="inbox")
app.add_typer(letters.outbox_app, name="outbox")
app.add_typer(letters.quarantine_app, name="quarantine")
app.add_typer(notify.app, name="notify")
app.add_typer(evaluate.app, name="eval")
app.command("channels")(channels.channels)
app.add_typer(email.app, name="email")
app.command("costs")(costs.costs)
app.command("doctor")(doctor.doctor)


def main() -> None:
    """Run the command line of this process and end the process with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")   # a terminal that cannot show Chinese gets escapes
    # The pool reports each failed attempt; the command says it once, in its own line.
    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)
    sys.exit(run(sys.argv[1:]))


def run(args: Sequence[str]) -> int:
    """Run one command and return its exit code; an error is one line on stderr."""
    code = _run(args)
    # To an MTA every code but this one means "give the mail back to its sender": nothing of ours may cause that.
    return os.EX_TEMPFAIL if list(args[:2]) == ["email", "pipe"] and code in OURS else code


def _run(args: Sequence[str]) -> int:
    unreadable = next((a for a in args if any("\ud800" <= c <= "\udfff" for c in a)), None)
    if unreadable is not None:      # Python's stand-ins for bytes that are no text here; no database stores them
        complain(f"not text in this terminal's encoding: {unreadable.encode(errors='backslashreplace').decode()[:80]}")
        return WRONG
    try:
        code = get_command(app).main(args=list(args) or ["--help"], prog_name="supportpilot", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_stdout()
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 -- the last door: a person gets one line, never a traceback
        return _explain(error)
    return code if isinstance(code, int) else 0


def _explain(error: Exception) -> int:
    if isinstance(error, typer.Abort):
        complain("stopped: nothing was changed")
        return FAILED
    if isinstance(error, typer.TyperException):
        return _explain_usage(error)
    if isinstance(error, SupportPilotError):
        complain(line(str(error) or type(error).__name__, ERROR_CHARS))
        return exit_code(error)
    logging.getLogger(__name__).debug("unexpected failure", exc_info=error)
    complain(f"failed unexpectedly ({type(error).__name__}: {line(error, ERROR_CHARS)}); please report this line")
    return FAILED


def _explain_usage(error: typer.TyperException) -> int:
    context = getattr(error, "ctx", None)
    shown = getattr(error, "format_message", lambda: str(error))()
    complain(f"{line(shown, ERROR_CHARS)} See `{context.command_path if context else 'supportpilot'} --help`")
    return WRONG


def exit_code(error: SupportPilotError) -> int:
    """Return the exit code of an error of the tree."""
    if isinstance(error, Refused):
        return REFUSED
    return WRONG if isinstance(error, Misconfigured | Unusable) else FAILED


def _forget_stdout() -> None:
    """Whoever read us has gone (`| head`): leave nothing that would complain at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
