"""What a `chat` shows: a thread that watches the ticket and prints steps, tool calls, tokens and the reply.

Every terminal on a ticket has one, so they all see the same, also what another one asked.
"""

from __future__ import annotations

import json
import sys
import threading

from producer.cli.screen import line, safe
from supportpilot.agent.citations import render_links, unknown_ids
from supportpilot.config import Settings
from supportpilot.db import outbox
from supportpilot.db.events import Event
from supportpilot.db.pool import Database
from supportpilot.errors import SupportPilotError, Unavailable
from supportpilot.service import ticket as tickets
from supportpilot.service.live import Watcher
from supportpilot.tools.citations import citations_in
from supportpilot.types import Citation

POLL_SECONDS = 0.5
PROFILE_CHARS = 60
RECONNECT_SECONDS = 1.0


class Printer:
    """Writes to the terminal; knows whether a line of tokens is still open. Safe with threads."""

    def __init__(self) -> None:
        self._open = False
        self._guard = threading.Lock()

    def line(self, text: str) -> None:
        """Print a text on lines of its own."""
        with self._guard:
            start = "\n" if self._open else ""
            sys.stdout.write(f"{start}{safe(text)}\n")
            sys.stdout.flush()
            self._open = False

    def piece(self, text: str) -> None:
        """Print a piece of a text that goes on."""
        with self._guard:
            sys.stdout.write(safe(text))
            sys.stdout.flush()
            self._open = True


UNFINISHED = {"replaced": "you wrote on: one answer to all of it", "goes on": "you wrote on: that is answered next"}


class Viewer:
    """Shows a ticket live until it is stopped; `ended` holds the turns whose end was shown."""

    def __init__(self, db: Database, settings: Settings, ticket_id: str, printer: Printer) -> None:
        self._db, self._settings, self._ticket_id, self._printer = db, settings, ticket_id, printer
        self._stop = threading.Event()
        self._shown: set[str] = set()
        self._streamed = ""                                 # the draft as this terminal has seen it
        self._news = threading.Condition()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chat-viewer", daemon=True)

    def start(self) -> None:
        """Start watching and wait until the workers can know of it."""
        self._thread.start()
        self._ready.wait(5)

    def stop(self) -> None:
        """Stop watching."""
        self._stop.set()
        self._thread.join(timeout=5)

    def wait_shown(self, turn_id: str, seconds: float) -> bool:
        """Wait until the end of a turn was shown; False if it did not come in time."""
        with self._news:
            return self._news.wait_for(lambda: turn_id in self._shown, timeout=seconds)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with Watcher(self._db.url, self._ticket_id) as watcher:
                    self._ready.set()
                    while not self._stop.is_set():
                        for event in watcher.poll(POLL_SECONDS):
                            self._show(event)
            except Unavailable as error:
                self._printer.line(f"(live view interrupted: {line(error)})")
                self._stop.wait(RECONNECT_SECONDS)

    def _show(self, event: Event) -> None:
        if event.type == "turn" or event.data.get("node") == "draft":
            self._streamed = ""
        if event.type == "step":
            self._printer.line(f"  · {event.data.get('node')}")
        elif event.type == "tool":
            arguments = json.dumps(event.data.get("args"), ensure_ascii=False)
            failed = "  (error)" if event.data.get("is_error") else ""
            self._printer.line(f"  > {event.data.get('name')}({arguments}){failed}")
        elif event.type == "token":
            piece = str(event.data.get("text", ""))
            self._streamed += piece
            self._printer.piece(piece)
        elif event.type == "end":
            self.show_end(event.turn_id, str(event.data.get("said", "")))

    def show_end(self, turn_id: str, said: str) -> None:
        """Print what the customer gets, once, and the ticket's memory in one line."""
        if said in UNFINISHED:
            self._printer.line(f"--- {UNFINISHED[said]} ---")
            return
        with self._news:
            if turn_id in self._shown:
                return
        try:
            self._printer.line(f"--- {said} ---")
            for kind, body in self._texts(turn_id):
                self._printer.line(reply_lines(kind, body, self._streamed))
            self._printer.line(memory_line(tickets.show(self._db, self._settings, self._ticket_id)))
        except SupportPilotError as error:
            self._printer.line(f"(not shown: {line(error)})")
        with self._news:
            self._shown.add(turn_id)
            self._news.notify_all()

    def forget(self, turn_id: str) -> None:
        """A parked turn goes on: its end will come once more."""
        with self._news:
            self._shown.discard(turn_id)

    def _texts(self, turn_id: str) -> list[tuple[str, str]]:
        with self._db.connection() as conn:
            rows = [r for r in outbox.rows(conn, ticket_id=self._ticket_id) if r["turn_id"] == turn_id]
        answers = [r for r in rows if r["kind"] in {"reply", "handoff"}] or rows
        return [(str(r["kind"]), str(r["body"])) for r in reversed(answers)]


def reply_lines(kind: str, body: str, streamed: str) -> str:
    """Return a reply as it is printed: if its text was streamed already, only what its marks stand for."""
    sources = sources_of_streamed(streamed, body)
    if not sources:
        return f"{kind}: {body}"
    return "\n".join([f"{kind}: as above", *(f"  {line(source.title)}  {source.url}" for source in sources)])


def sources_of_streamed(streamed: str, body: str) -> list[Citation]:
    """Return the sources of a reply that is the streamed text with its marks as links; [] if it is another text."""
    sources, text = citations_in(body), streamed.strip()
    hits = [{"article_id": source.id, "title": source.title, "url": source.url, "text": ""} for source in sources]
    return sources if not unknown_ids(text, hits) and render_links(text, hits, "") == body else []


def memory_line(shown: dict[str, object]) -> str:
    """Return the ticket's memory in one line: entries, how far they are summarised, the profile."""
    turns = shown["turns"]
    entries = len(turns) if isinstance(turns, list) else 0
    profile = line(shown["profile"], PROFILE_CHARS) or "none"
    return f"[memory] {entries} entries, summarised up to {shown['summarized_upto']}; profile: {profile}"
