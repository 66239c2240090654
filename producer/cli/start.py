"""Where `supportpilot` begins. Loading the commands takes seconds on a busy machine, and Ctrl-C counts then, too."""

from __future__ import annotations

import os

INTERRUPTED = 130


def main() -> None:
    """Load the command line and run it; an interrupt while it loads ends the process without a word, as later."""
    try:
        from producer.cli.main import main as run  # noqa: PLC0415 -- this is what may be interrupted
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)       # half-loaded modules have exit handlers that cannot be relied on
    run()


if __name__ == "__main__":
    main()
