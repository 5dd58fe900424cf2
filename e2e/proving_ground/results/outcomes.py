"""Writes the page with the last result of each scenario, with a column for each KubeRay version.

The page is written whenever a scenario ends, so a run that is interrupted keeps its results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from proving_ground.results.figures import Row, read_table, render_table

PAGE = Path(__file__).parents[3] / "docs" / "scenarios.md"
BEGIN, END = "<!-- scenarios: begin -->", "<!-- scenarios: end -->"
LAST_PHASE = "teardown"


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase of a scenario, as pytest reports it.

    Attributes:
        when: `setup`, `call`, or `teardown`.
        outcome: `passed`, `failed`, or `skipped`.
        reason: why pytest skipped the scenario.
    """

    when: str
    outcome: str
    seconds: float
    reason: str


@dataclass(slots=True)
class Outcomes:
    """Results of a run of scenarios.

    Attributes:
        version: KubeRay's version, such as `v1.7.0`; empty for the stand-in.
        day: day of the run, such as `2026-11-29`.
    """

    version: str
    day: str
    page: Path = PAGE
    _phases: dict[str, list[Phase]] = field(default_factory=dict, init=False)

    def add(self, scenario: str, phase: Phase) -> None:
        """Add a phase of a scenario. After the last phase, write the result to the page."""
        phases = self._phases.setdefault(scenario, [])
        phases.append(phase)
        if phase.when == LAST_PHASE:
            self._write(scenario, f"{describe(phases)} ({self.day})")

    def _write(self, scenario: str, result: str) -> None:
        column = f"KubeRay {self.version}" if self.version else "stand-in"
        rows = read_rows(self.page)
        row = f"`{scenario}`"
        rows[row] = rows.get(row, {}) | {column: result}
        head, _, rest = self.page.read_text(encoding="utf-8").partition(BEGIN)
        table = render_table(dict(sorted(rows.items())), "scenario")
        text = f"{head}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}"
        self.page.write_text(text, encoding="utf-8")


def describe(phases: Sequence[Phase]) -> str:
    """Return the result of a finished scenario."""
    seconds = sum(phase.seconds for phase in phases)
    for phase in phases:
        if phase.outcome == "failed":
            where = "" if phase.when == "call" else f" in {phase.when}"
            return f"failed{where}, {seconds:.0f} s"
    for phase in phases:
        if phase.outcome == "skipped":
            reason = " ".join(phase.reason.removeprefix("Skipped: ").split())
            return f"skipped: {reason.replace('|', '/')}"
    return f"passed, {seconds:.0f} s"


def read_rows(page: Path) -> dict[str, Row]:
    """Return the table of the page: results by scenario and column."""
    _, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    return read_table(rest.partition(END)[0])
