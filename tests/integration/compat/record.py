"""Record the threads of this release: `.venv/bin/python tests/integration/compat/record.py`.

Writes `v<version of pyproject.toml>.json` beside this file. To be run once for each release, before its tag, and
committed; `test_recordings.py` then resumes it in every later release. A file that is there is not written over:
what a released version has stored cannot change any more (`--again` while the version is not released yet).
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from fixtures import compat
from fixtures.postgres import running_postgres

from supportpilot.db.migrate import migrate
from supportpilot.db.pool import Database


def main() -> int:
    """Record and return the exit code."""
    with running_postgres() as server:
        url = server.create("recorded")
        migrate(url)
        with Database(url) as db:
            recording = compat.record(db)
    path = compat.FOLDER / f"v{recording['release']}.json"
    if path.exists() and "--again" not in sys.argv:
        print(f"{path.name} is there already; a release is recorded once", file=sys.stderr)
        return 2
    compat.write(recording, path)
    print(f"wrote {path.name}, {path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
