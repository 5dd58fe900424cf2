"""A pipeline over files of numbers whose stages have one parameter each, and its output."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from number_runs import Item, NumberRuns
from strandline_api.outcome.exit_codes import ExitCode
from tuned_stages import BROKEN

SHARED = {"use": "parquet", "with": {"targetBytes": 1_000_000}}
NAME, FILES, ROWS = "tuned", 3, 20


def add(by: int, *, keep: bool = False, name: str = "add") -> Item:
    return {"use": "tuned_stages:Add", "name": name, "with": {"by": by}, "keep": keep}


def below(limit: int, *, keep: bool = False, name: str = "below") -> Item:
    return {"use": "tuned_stages:KeepBelow", "name": name, "with": {"limit": limit}, "keep": keep}


class Tuning(NumberRuns):
    """A pipeline over files of numbers that changes between runs."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, NAME, FILES, ROWS)
        BROKEN.clear()

    def run(self, *stages: Item, name: str | None = None, **options: Any) -> ExitCode:
        return super().run(*stages, name=name, **{"on_change": "Redo", **options})

    def read(self, name: str = NAME) -> Counter[tuple[str, int]]:
        """Return the output numbers with the folder of their source, or "" for shared files."""
        rows: Counter[tuple[str, int]] = Counter()
        for path in self.passes.find_output(name).rglob("*.parquet"):
            folder = path.parent.name if len(path.parent.name) == 32 else ""
            rows.update((folder, n) for n in pq.read_table(path)["n"].to_pylist())
        return rows

    def read_files(self, name: str = NAME) -> Counter[tuple[str, tuple[int, ...]]]:
        """Return the ordered content of each file that belongs to one source."""
        return Counter(
            (path.parent.name, tuple(pq.read_table(path)["n"].to_pylist()))
            for path in self.passes.find_output(name).glob("???/*/*.parquet")
        )

    def read_alive(self) -> Counter[tuple[str, int]]:
        """Return the output numbers as `read` does, without dead letters."""
        rows = self.read()
        for path in self.passes.find_output(NAME).glob("_strandline/dead-letters/*/*/*.parquet"):
            rows.subtract((path.parent.name, n) for n in pq.read_table(path)["n"].to_pylist())
        return rows

    def read_totals(self, name: str = NAME) -> list[bytes]:
        latest = self.passes.find_output(name).parent / "latest" / "artifacts"
        return [path.read_bytes() for path in sorted(latest.glob("*"))]

    @property
    def cuts(self) -> list[Path]:
        return sorted(self.passes.find_output(NAME).glob("_strandline/kept/*/*/*.arrow"))

    def check(self) -> None:
        assert [] == self.passes.find_problems(NAME)

    def count_rows(self, stage: str) -> int:
        return self.outcome.counts[stage].rows_in
