"""How the demo tells its story."""

from __future__ import annotations

from collections.abc import Sequence

from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from producer.cli.demo_world import Ran
from producer.cli.screen import console, safe

OFFLINE = ("Every answer above came from the offline rule model (fixed rules, not an LLM): "
           "set OPENAI_API_KEY and LLM_MODEL to use a real one.")


class View:
    """The narrator; customers' and models' words are shown as text, never as markup."""

    def __init__(self) -> None:
        self._screen = console()

    def step(self, number: int, total: int, title: str) -> None:
        """Head a step."""
        self._screen.rule(Text(f"{number}/{total}  {title}", style="bold"), align="left")

    def tell(self, text: str) -> None:
        """Say what happens."""
        self._screen.print(Text(safe(text)), soft_wrap=True)

    def proved(self, text: str) -> None:
        """Say what was checked and found true."""
        self._screen.print(Text(f"  ✓ {safe(text)}", style="green"))

    def customer(self, who: str, text: str) -> None:
        """Show a customer's message."""
        self._box(f"{who} writes", text, "cyan")

    def reply(self, kind: str, text: str) -> None:
        """Show what the customer got."""
        self._box(f"{kind} to the customer (signed callback)", text, "green")

    def memory(self, text: str) -> None:
        """Show what the model saw."""
        self._box("what the model saw: the memory view of this turn", text, "magenta")

    def note(self, title: str, text: str) -> None:
        """Show what the memory holds."""
        self._box(title, text, "magenta")

    def ran(self, command: str, ran: Ran) -> None:
        """Show a command and what it printed."""
        said = "\n".join(text.rstrip() for text in (ran.out, ran.error) if text.strip())
        code = f"  (exit {ran.code})" if ran.code else ""
        self.tell(f"$ supportpilot {command}\n{said}{code}")

    def _box(self, title: str, text: str, style: str) -> None:
        self._screen.print(Panel(Text(safe(text)), title=Text(safe(title)), title_align="left", border_style=style))

    def failed(self, number: int, title: str, why: str) -> None:
        """Name the step that did not happen."""
        self._screen.print(Text(safe(f"step {number} did not happen ({title}): {why}"), style="bold red"))

    def summary(self, done: Sequence[tuple[str, float]], seconds: float) -> None:
        """Show what happened, and what answered."""
        table = Table(title=f"It all really happened ({seconds:.0f} s)", title_justify="left")
        table.add_column("step")
        table.add_column("seconds", justify="right")
        for title, took in done:
            table.add_row(Text(f"✓ {title}"), f"{took:.1f}")
        self._screen.print(table)
        self.tell(OFFLINE)
