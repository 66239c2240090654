"""What people and scripts read.

Customer text is untrusted: a control character in it could rewrite the terminal, a `[red]` in it must not become
markup, and neither may reach the screen through `--json`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from producer.plain import plain

# C0 but tab and newline, DEL, C1, marks that turn the writing direction round, invisible and lone halves.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
CELL_CHARS = 70
LONG_FIELDS = frozenset({"body", "subject", "text", "title", "reason", "last_error", "summary", "contact", "sender"})


def safe(value: object) -> str:
    """Return the text without characters that could steer a terminal."""
    return _UNSAFE.sub("", "" if value is None else str(value))


def line(value: object, limit: int = CELL_CHARS) -> str:
    """Return the text on one line, shortened to `limit` characters."""
    joined = " ".join(safe(value).split())
    return joined if len(joined) <= limit else joined[: limit - 1] + "…"


def console() -> Console:
    """Return a console on today's stdout (tests exchange it)."""
    return Console(highlight=False, soft_wrap=False)


def say(text: object) -> None:
    """Print a text as it is, safe for the terminal; at once, also into a pipe that somebody waits on."""
    print(safe(text), flush=True)


def complain(text: object) -> None:
    """Print one line on stderr."""
    print(" ".join(safe(text).split()), file=sys.stderr)


def print_json(value: object) -> None:
    """Print a value as JSON; characters that could steer a terminal stand there as escapes."""
    text = json.dumps(plain(value), ensure_ascii=False, indent=2)
    print(re.sub(_UNSAFE, lambda found: f"\\u{ord(found[0]):04x}", text))


def money(value: object) -> str:
    """Return an amount in CNY for people, "-" if there is none."""
    if value is None or value == "":
        return "-"
    return f"¥{Decimal(str(value)):,.2f}"


def moment(value: object) -> str:
    """Return a time (UTC, as the database gives it) for people, to the minute."""
    text = value.isoformat() if isinstance(value, datetime) else safe(value)
    return f"{text[:16].replace('T', ' ')}Z" if len(text) >= 16 else text


def print_table(title: str, columns: Sequence[tuple[str, str]], rows: Iterable[object]) -> None:
    """Print records as a table; a column is (heading, field)."""
    table = Table(title=title, title_justify="left", header_style="bold", expand=False)
    for heading, field in columns:
        table.add_column(heading, overflow="fold", no_wrap=field not in LONG_FIELDS)
    count = 0
    for row in rows:
        record = plain(row)
        table.add_row(*(Text(_cell(field, record.get(field))) for _, field in columns))
        count += 1
    if count:
        console().print(table)
    else:
        say(f"{title}: none")


def _cell(field: str, value: object) -> str:
    if value is None:
        return "-"
    if field.endswith("_at"):
        return moment(value)
    return line(value)
