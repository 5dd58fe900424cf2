"""Plays random rounds of a changing pipeline: edits, damage, kills, and retries of dead letters.

A round ends with an undisturbed run, whose result must equal that of a fresh run.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from failing_stages import MENDED
from number_runs import Item
from pipeline_runs import crashing_at
from strandline.ledger.errors import LedgerError
from strandline.storage.outputs.names import CUTS, DEAD_LETTERS
from strandline_api.status.enums import Trigger
from tuning import FILES, NAME, SHARED, Tuning

MOST_STEPS = 80  # crash at one of this number of steps
FANS = {"halves", "part", "join"}
SINKS: tuple[Item, ...] = (
    {"use": "parquet"},
    SHARED,
    {"use": "parquet", "with": {"targetBytes": 1}},
)
HARMLESS = 1000  # no table contains this number
QUARANTINE = {"after": 2, "tolerate": FILES + 9}
Link = tuple[str, str, int, bool]  # name, kind, value, and whether the stage keeps its output
KINDS: dict[str, Callable[[int], Item]] = {
    "add": lambda value: {"use": "tuned_stages:Add", "with": {"by": value}},
    "below": lambda value: {"use": "tuned_stages:KeepBelow", "with": {"limit": 10 + value}},
    "part": lambda value: {"use": "tuned_stages:Part", "with": {"rows": 1 + value % 5}},
    "halves": lambda value: {"use": "tuned_stages:Halves", "with": {"by": 2 + value % 3}},
    "drop": lambda value: {"use": "tuned_stages:DropMultiples", "with": {"of": 2 + value % 5}},
    "join": lambda value: {"use": "tuned_stages:Add", "with": {"by": value}, "group": 4},
    "die": lambda value: {
        "use": "tuned_stages:DieOn",
        "with": {"of": 3 + value % 5},
        "onError": "deadLetter",
    },
    "refuse": lambda value: {"use": "tuned_stages:RefuseOn", "with": {"number": value}},
    "square": lambda _: {"use": "tuned_stages:Square"},
    "times": lambda value: {"use": "tuned_stages:Times", "with": {"by": value}},
    "double": lambda _: {"use": "tuned_stages:Double"},
}


class RedoRound:
    """One pipeline and its events, drawn from a seed.

    Args:
        folder: an empty folder.
        engine: engine of the runs.

    Attributes:
        told: a log of the events, one line per event.
    """

    def __init__(
        self, seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch, engine: str = "inline"
    ) -> None:
        self._draw = random.Random(seed)
        self._monkeypatch = monkeypatch
        self._engine = engine
        self._tuning = Tuning(folder)
        # Only stages in the test's own process see a fix, so only `inline` runs can have fixes.
        self._mends = self._draw.random() < 0.3 and engine == "inline"
        self._sink = self._draw.choice(SINKS)
        self._chain: list[Link] = []
        for _ in range(self._draw.randint(1, 4)):
            self._chain.append(self._draw_stage())
        if self._draw.random() < 0.5:
            self._tuning.reader = {"use": "tuned_stages:OpenNumbers"}
        else:
            self._tuning.reader = {
                "use": "read-jsonl",
                "with": {"maxRows": self._draw.randint(2, 6)},
            }
        self._named = len(self._chain)
        self.told: list[str] = []
        MENDED.clear()

    def play(self) -> list[str]:
        """Play the round. Return a line for each difference from a fresh run."""
        self._run()
        events = [self._edit, self._edit, self._hurt, self._kill, self._write]
        events += [self._retry] if self._mends else []
        for event in self._draw.choices(events, k=self._draw.randint(2, 5)):
            event()
            if self._draw.random() < 0.3:
                self._run()
        # A failed source keeps the output of an older recipe, so no source may fail in the last
        # run.
        self._chain = [
            (name, kind, HARMLESS if kind == "refuse" else value, keep)
            for name, kind, value, keep in self._chain
        ]
        self._run()
        if self._mends:
            self._mend()
        # Only a repair finds damage to files that the changes did not affect.
        self._run(trigger=Trigger.REPAIR)
        return list(self._compare())

    def _draw_stage(self) -> Link:
        # Stages that may occur only once, because a table cannot have two columns of the same name.
        taken = {kind for _, kind, *_ in self._chain} & {"square", "times"}
        taken |= {"join"} if self._mends else set()  # joined rows would form a group
        kind = self._draw.choice(sorted(KINDS.keys() - taken))
        name = f"s{self._draw.randrange(10**6)}"
        return name, kind, self._draw.randint(0, 40), self._draw.random() < 0.4

    def _make_stages(self) -> list[Item]:
        items: list[Item] = []
        fans = int(self._tuning.reader["use"] == "read-jsonl")
        kinds = [kind for _, kind, *_ in self._chain]
        for at, (name, kind, value, keep) in enumerate(self._chain):
            joins = "join" in kinds[at + 1 :]
            fans += kind in FANS
            is_kept = keep and not (fans > 1 and joins)
            items.append({**KINDS[kind](value), "name": name, "keep": is_kept})
        total = {"use": "tuned_stages:Total"}
        return [{**total, "name": "first"}, *items, {**total, "name": "last"}]

    def _run(self, on_change: str = "Redo", **options: Any) -> None:
        self.told.append(f"{options} {on_change} {self._chain} {self._sink}")
        stages = self._make_stages()
        listing = {"onRemoved": "Delete"}
        options |= {"sink": self._sink, "quarantine": QUARANTINE, "engine": self._engine}
        try:
            self._tuning.run(*stages, listing=listing, on_change=on_change, **options)
        except LedgerError as error:  # dead letters of another recipe cannot be retried
            if "dead_letters" not in options:
                raise
            self.told.append(f"  {error}")
        else:
            self.told.append(f"  {self._tuning.outcome.code.name} {self._tuning.outcome.message}")

    def _edit(self) -> None:
        at = self._draw.randrange(len(self._chain) + 1)
        change = self._draw.choice(["value", "insert", "remove", "keep", "sink"])
        if change == "insert":
            self._chain.insert(at, self._draw_stage())
        elif change == "sink":
            self._sink = self._draw.choice(SINKS)
        elif at < len(self._chain):
            name, kind, value, keep = self._chain[at]
            if change == "remove" and len(self._chain) > 1:
                del self._chain[at]
            elif change == "keep":
                self._chain[at] = name, kind, value, not keep
            else:
                self._chain[at] = name, kind, self._draw.randint(0, 40), keep

    def _hurt(self) -> None:
        """Remove, truncate, or change a file of outputs or cuts."""
        output = self._tuning.output
        files = [*output.glob("???/*/*.parquet"), *output.glob("shared/*/*.parquet")]
        files += output.glob(f"{CUTS}/*/*/*.arrow")
        for path in self._draw.sample(sorted(files), min(len(files), self._draw.randint(1, 3))):
            how = self._draw.choice(_HURTS)
            how(path)
            self.told.append(f"{how.__name__} {path.name}")

    def _kill(self) -> None:
        """Edit the pipeline, then crash its run at a drawn step."""
        self._edit()
        at = self._draw.randrange(MOST_STEPS)
        with suppress(AssertionError), crashing_at(at, self._monkeypatch):  # a run may be shorter
            self._run()
        self.told.append(f"  killed at step {at}")

    def _write(self) -> None:
        """Change, add, or remove a file of numbers."""
        number, count = self._draw.randrange(FILES + 2), self._draw.randint(0, 20)
        path = self._tuning.texts / f"{number}.jsonl"
        if count:
            self._tuning.write(number, self._draw.sample(range(100), count))
        else:
            path.unlink(missing_ok=True)
        self.told.append(f"file {number}: {count} rows")

    def _retry(self) -> None:
        """Retry dead letters with the current pipeline, and keep finished sources."""
        self._edit()
        MENDED.add("die")
        self._retry_all("Continue")

    def _mend(self) -> None:
        MENDED.add("die")
        self._retry_all("Redo")

    def _retry_all(self, on_change: str) -> None:
        for name, kind, *_ in reversed(self._chain):
            if kind == "die":
                self._run(on_change, dead_letters=name)

    def _compare(self) -> list[str]:
        code = self._tuning.outcome.code
        problems = self._tuning.passes.find_problems(NAME)
        stages, listing = self._make_stages(), {"onRemoved": "Delete"}
        options = {"sink": self._sink, "quarantine": QUARANTINE, "listing": listing}
        self._tuning.run(*stages, name="fresh", **options)
        own, fresh = self._look(NAME), self._look("fresh")
        own["code"], fresh["code"] = code, self._tuning.outcome.code
        differing = [part for part in own if own[part] != fresh[part]]
        return problems + [f"{part}: {own[part]} and {fresh[part]}" for part in differing]

    def _look(self, name: str) -> dict[str, Any]:
        with self._tuning.passes.opened(name) as store:
            states = store.count()
            held = sorted(record.key for _, record in store.list_quarantined())
        found: dict[str, Any] = {
            "rows": self._read_rows(name),
            "totals": self._tuning.read_totals(name),
            "quarantined": held,
            "states": {state: states[state] for state in ("finished", "failed", "inflight")},
        }
        if not self._mends:
            found["files"] = self._tuning.read_files(name)
        return found

    def _read_rows(self, name: str) -> Counter[tuple[bool, str]]:
        """Return all rows with a flag for dead letters."""
        output = self._tuning.passes.find_output(name)
        rows: Counter[tuple[bool, str]] = Counter()
        for path in output.rglob("*.parquet"):
            is_dead = DEAD_LETTERS in str(path)
            table = pq.ParquetFile(path).read()
            columns = [column for column in table.column_names if not column.startswith("dead_")]
            rows.update((is_dead, str(row)) for row in table.select(columns).to_pylist())
        return rows


def _remove(path: Path) -> None:
    path.unlink()


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _change(path: Path) -> None:
    written = bytearray(path.read_bytes())
    written[len(written) // 2] ^= 1
    path.write_bytes(written)


_HURTS: tuple[Callable[[Path], None], ...] = (_remove, _cut, _change)
