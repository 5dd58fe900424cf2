"""Which sources a listing has named, kept on disk: needed only where vanished ones are deleted."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence


class Seen:
    """A set of source digests that may be larger than memory; gone when closed."""

    def __init__(self) -> None:
        # An empty name is a private database that sqlite spills to a temporary file.
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._database.execute("CREATE TABLE seen (source BLOB PRIMARY KEY) WITHOUT ROWID")

    def add(self, sources: Iterable[bytes]) -> None:
        """Note that these were listed."""
        self._database.execute("BEGIN")
        rows = ((source,) for source in sources)
        self._database.executemany("INSERT OR IGNORE INTO seen VALUES (?)", rows)
        self._database.execute("COMMIT")

    def find_missing(self, sources: Sequence[bytes]) -> list[bytes]:
        """Those of `sources` that were not listed."""
        query = "SELECT 1 FROM seen WHERE source = ?"
        fetch = self._database.execute
        return [source for source in sources if fetch(query, (source,)).fetchone() is None]
