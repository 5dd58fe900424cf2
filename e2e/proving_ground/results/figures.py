"""A table of scenarios: how each ended, how long a run took to recover, how much was done twice.

It has a row for each scenario, and a column for each KubeRay on which they were played.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from proving_ground.ground import Ground, Resumption
from proving_ground.story import Story

BEGIN, END = "<!-- e2e: begin -->", "<!-- e2e: end -->"
WHAT = "what happened"
# The columns of the stand-in. A KubeRay has one column for all of this, and the day.
CELLS = ("cause", "recovery", "sources finished before", "others opened again")
PLAYED = "played"
HEADS = (*CELLS, PLAYED)
NOTHING = "–"
Row = dict[str, str]


@dataclass(slots=True)
class Figures:
    """Rows of a table, as scenarios end.

    Attributes:
        version: of KubeRay, such as `v1.7.0`; empty for the stand-in.
        day: on which they are played, such as `2026-11-23`.
        rows: cells by their heads, by what happened.
    """

    version: str = ""
    day: str = ""
    rows: dict[str, Row] = field(default_factory=dict)

    def note(self, what: str, story: Story, resumption: Resumption) -> None:
        """Take the figures of the first attempt's end and the second's start."""
        first, second = story.attempts[:2]
        seconds = measure_recovery(first["status"], second["status"])
        done, again = len(resumption.finished), len(resumption.lost)
        self.add(what, first["status"]["cause"], f"{seconds:.0f} s", f"{done}", f"{again}")

    def note_absorbed(self, what: str, ground: Ground) -> None:
        """Take the figures of a loss with which the attempt went on."""
        again = sum(count - 1 for count in ground.opened.values())
        self.add(what, NOTHING, "same attempt", NOTHING, str(again))

    def note_end(self, what: str, how: str) -> None:
        """Take how something ended after which nothing had to recover: a cause, or a reason."""
        self.add(what, how, NOTHING, NOTHING, NOTHING)

    def add(self, what: str, *cells: str) -> None:
        """Add a row with the cells of `CELLS`."""
        if self.version:
            output = ", ".join(cell for cell in cells if cell != NOTHING)
            self.rows[what] = {f"KubeRay {self.version}": f"{output} ({self.day})"}
        else:
            self.rows[what] = dict(zip(CELLS, cells, strict=True)) | {PLAYED: self.day}

    def tabulate(self) -> str:
        """Return the table in Markdown; empty where nothing was noted."""
        return render_table(self.rows)

    def keep(self, page: Path) -> None:
        """Put the rows into the table between the marks of a page; what others measured stays."""
        text = page.read_text(encoding="utf-8")
        head, _, rest = text.partition(BEGIN)
        table, _, tail = rest.partition(END)
        rows = read_table(table)
        for what, cells in self.rows.items():
            rows[what] = rows.get(what, {}) | cells
        page.write_text(f"{head}{BEGIN}\n{render_table(rows)}\n{END}{tail}", encoding="utf-8")


def read_table(text: str) -> dict[str, Row]:
    """Read what `render_table` wrote."""
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
    """Render a table, with the newest KubeRay first; a cell is empty where nothing was played.

    Args:
        what: the head of the first column.
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
    """Return seconds from the end of an attempt to the moment when the next one's driver ran."""
    ended, running = (
        datetime.fromisoformat(status[name])
        for status, name in ((first, "endTime"), (second, "runningTime"))
    )
    return (running - ended).total_seconds()
