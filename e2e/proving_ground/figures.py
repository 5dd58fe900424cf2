"""How long a run took to recover in each scenario, and how much work was done twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from proving_ground.ground import Ground, Resumption
from proving_ground.story import Story

BEGIN, END = "<!-- e2e: begin -->", "<!-- e2e: end -->"
HEADS = ("what happened", "cause", "recovery", "sources finished before", "others opened again")


@dataclass(slots=True)
class Figures:
    """Rows of a table, as scenarios end."""

    rows: list[tuple[str, ...]] = field(default_factory=list)

    def note(self, what: str, story: Story, resumption: Resumption) -> None:
        """Take the figures of the first attempt's end and the second's start."""
        first, second = story.attempts[:2]
        seconds = measure_recovery(first["status"], second["status"])
        done, again = len(resumption.finished), len(resumption.lost)
        self.rows.append(
            (what, first["status"]["cause"], f"{seconds:.0f} s", f"{done}", f"{again}")
        )

    def note_absorbed(self, what: str, ground: Ground) -> None:
        """Take the figures of a loss with which the attempt went on."""
        again = sum(count - 1 for count in ground.opened.values())
        self.rows.append((what, "–", "same attempt", "–", str(again)))

    def tabulate(self) -> str:
        """The table in Markdown; empty where nothing was noted."""
        if not self.rows:
            return ""
        lines = [HEADS, ("---",) * len(HEADS), *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def keep(self, page: Path) -> None:
        """Put the rows into the table between the marks of a page; those of others stay."""
        text = page.read_text(encoding="utf-8")
        head, _, rest = text.partition(BEGIN)
        table, _, tail = rest.partition(END)
        rows = {row[0]: row for row in [*_read_rows(table), *self.rows]}
        shown = Figures(list(rows.values())).tabulate()
        page.write_text(f"{head}{BEGIN}\n{shown}\n{END}{tail}", encoding="utf-8")


def _read_rows(table: str) -> Iterator[tuple[str, ...]]:
    for line in table.strip().splitlines()[2:]:  # below the heads and their rule
        yield tuple(cell.strip() for cell in line.strip().strip("|").split(" | "))


def measure_recovery(first: dict[str, str], second: dict[str, str]) -> float:
    """Seconds from the end of an attempt to the moment when the next one's driver ran."""
    ended, running = (
        datetime.fromisoformat(status[name])
        for status, name in ((first, "endTime"), (second, "runningTime"))
    )
    return (running - ended).total_seconds()
