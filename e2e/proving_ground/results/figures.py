"""Collects a table of scenarios: cause, recovery time, and repeated work.

The table has a row per scenario, and a column per KubeRay version that ran the scenarios.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from proving_ground.ground import Ground, Resumption
from proving_ground.story import Story

BEGIN, END = "<!-- e2e: begin -->", "<!-- e2e: end -->"
WHAT = "what happened"
# Columns of the stand-in. A KubeRay version has a single column that joins these values and the
# day.
CELLS = ("cause", "recovery", "sources finished before", "others opened again")
PLAYED = "played"
HEADS = (*CELLS, PLAYED)
NOTHING = "–"
Row = dict[str, str]


@dataclass(slots=True)
class Figures:
    """Rows of a table, filled as scenarios end.

    Attributes:
        version: KubeRay's version, such as `v1.7.0`; empty for the stand-in.
        day: day of the run, such as `2026-11-23`.
        rows: cells by column name, for each event.
    """

    version: str = ""
    day: str = ""
    rows: dict[str, Row] = field(default_factory=dict)

    def note(self, what: str, story: Story, resumption: Resumption) -> None:
        """Record a recovery: the first attempt's end and the second attempt's start."""
        first, second = story.attempts[:2]
        seconds = measure_recovery(first["status"], second["status"])
        done, again = len(resumption.finished), len(resumption.lost)
        self.add(what, first["status"]["cause"], f"{seconds:.0f} s", f"{done}", f"{again}")

    def note_absorbed(self, what: str, ground: Ground) -> None:
        """Record a loss that the attempt survived."""
        again = sum(count - 1 for count in ground.opened.values())
        self.add(what, NOTHING, "same attempt", NOTHING, str(again))

    def note_end(self, what: str, how: str) -> None:
        """Record an end without a recovery.

        Args:
            how: a cause or a reason.
        """
        self.add(what, how, NOTHING, NOTHING, NOTHING)

    def add(self, what: str, *cells: str) -> None:
        """Add a row with the cells that `CELLS` names."""
        if self.version:
            output = ", ".join(cell for cell in cells if cell != NOTHING)
            self.rows[what] = {f"KubeRay {self.version}": f"{output} ({self.day})"}
        else:
            self.rows[what] = dict(zip(CELLS, cells, strict=True)) | {PLAYED: self.day}

    def tabulate(self) -> str:
        """Render the table in Markdown. Return an empty string if nothing was recorded."""
        return render_table(self.rows)

    def keep(self, page: Path) -> None:
        """Write the rows to the marked table of a page. Results of other versions stay."""
        text = page.read_text(encoding="utf-8")
        head, _, rest = text.partition(BEGIN)
        table, _, tail = rest.partition(END)
        rows = read_table(table)
        for what, cells in self.rows.items():
            rows[what] = rows.get(what, {}) | cells
        page.write_text(f"{head}{BEGIN}\n{render_table(rows)}\n{END}{tail}", encoding="utf-8")


def read_table(text: str) -> dict[str, Row]:
    """Parse the output of `render_table`."""
    lines = [
        [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        for line in text.strip().splitlines()
    ]
    if not lines:
        return {}
    heads, _, *rows = lines
    return {
        row[0]: {name: cell for name, cell in zip(heads[1:], row[1:], strict=True) if cell}
        for row in rows
    }


def render_table(rows: dict[str, Row], what: str = WHAT) -> str:
    """Render a table, newest KubeRay first. Cells without a result are empty.

    Args:
        what: heading of the first column.
    """
    if not rows:
        return ""
    found = {name for cells in rows.values() for name in cells}
    others = sorted(found - set(HEADS), reverse=True)
    heads = [*(HEADS if found & set(HEADS) else ()), *others]
    body = [[what, *(cells.get(name, "") for name in heads)] for what, cells in rows.items()]
    lines = [[what, *heads], ["---"] * (len(heads) + 1), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def measure_recovery(first: dict[str, str], second: dict[str, str]) -> float:
    """Return the seconds from the end of an attempt to the start of the next attempt's driver."""
    ended, running = (
        datetime.fromisoformat(status[name])
        for status, name in ((first, "endTime"), (second, "runningTime"))
    )
    return (running - ended).total_seconds()
