"""Counts a stage's results, and detects a broken stage from its first tasks.

The rules apply only until a stage has passed anything: one passing row proves that other rows fail
because of their content. This module has no side effects. See docs/design/failing-tasks.md.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from strandline.plan.errors import StrandlineError
from strandline.plan.receipt import StageCounts, UniformFailure
from strandline_api.spec.policy import count_tolerated

# If at least this many rows of a task all fail for the same reason, that is no coincidence.
ENOUGH_ROWS = 20
# The error of a table that lacks a column. The error proves a broken stage for any number of rows.
CERTAIN = "MissingColumnError"
_NUMBERS = re.compile(r"\d+")


class StageBrokenError(StrandlineError):
    """Raised if a stage has failed every task so far, and would fail all other tasks too."""

    is_lasting = True


@dataclass(slots=True)
class StageTally:
    """Counts of one stage.

    Attributes:
        expected: number of failures of sources that have failed before.
        tolerates: see `StagePlan`.
    """

    name: str
    counts: StageCounts = field(default_factory=StageCounts)
    expected: int = 0
    tolerates: int | str | None = None

    def has_passed(self, more: StageCounts) -> bool:
        """Return whether the stage has passed anything, in a call with these counts or before."""
        own = self.counts
        return bool(own.tasks_out + own.filtered + more.tasks_out + more.filtered)

    def check_uniform(self, more: StageCounts, known_bad: Collection[bytes]) -> None:
        """Raise an error if a whole task failed for one reason before the stage has passed any row.

        Args:
            more: counts of a call, which `counts` may already include.
            known_bad: sources that have failed before. Their failures prove nothing about the
                stage.

        Raises:
            StageBrokenError: if a whole task failed, and the stage does not tolerate the failures.
        """
        found = more.uniform
        if found is None or found.source in known_bad or self.has_passed(more):
            return
        if self.tolerates is not None and count_tolerated(self.tolerates, found.rows) >= found.rows:
            return
        raise StageBrokenError(_describe(self.name, found))


def find_uniform(messages: Sequence[str], kind: str, rows: int) -> str | None:
    """Return the failure message if all rows of a task failed for one reason, or None.

    Args:
        messages: messages of the failed rows.
        kind: the name of the first error's class.
        rows: number of rows of the task.
    """
    if not messages or len(messages) < rows or (rows < ENOUGH_ROWS and kind != CERTAIN):
        return None
    reasons = {_NUMBERS.sub("0", message) for message in messages}
    return messages[0] if len(reasons) == 1 else None


def _describe(stage: str, found: UniformFailure) -> str:
    rows = "the only row" if found.rows == 1 else f"all {found.rows} rows"
    what = f"stage {stage!r} failed {rows} of its first task, of {found.key!r}: {found.message}"
    if found.fails_source:
        more = "if only this source is bad, run again: the other sources are then processed"
    else:
        more = "to write such rows as dead letters, set `tolerateRows: 100%`"
    return f"{what}; correct the stage or its input columns, and run again; {more}"
