"""Which stored summary fits a thread: one whose source is, word for word, the thread's beginning.

A reset leaves old rows behind, and a ticket number may begin anew; the hash keeps their text out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from supportpilot.db import summaries
from supportpilot.db.pool import Connection
from supportpilot.db.summaries import StoredSummary


def source_hash(turns: Sequence[Mapping[str, Any]]) -> str:
    """Return a hash of the entries: who said what, in which order."""
    said = [[turn.get("id"), turn["role"], turn.get("author") or "", turn["content"]] for turn in turns]
    return hashlib.sha256(json.dumps(said, ensure_ascii=False).encode("utf-8", "surrogatepass")).hexdigest()


def newest_summary(conn: Connection, ticket_id: str, turns: Sequence[Mapping[str, Any]]) -> StoredSummary | None:
    """Return the version that covers most of these entries and fits them, if there is one."""
    for version in summaries.versions(conn, ticket_id, len(turns)):
        if version.source_hash == source_hash(turns[:version.upto]):
            return version
    return None
