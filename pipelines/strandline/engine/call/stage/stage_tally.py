"""Counts of a stage, and the rules by which its first tasks show that the stage is broken.

Pure. The rules are for a stage that has passed nothing yet: one row that passes shows that others
fail because of what is in them. See docs/design/failing-tasks.md.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from strandline.plan.errors import StrandlineError
from strandline.plan.receipt import StageCounts, UniformFailure
from strandline_api.spec.policy import count_tolerated

# Rows of a task from which on one reason for all of them is no accident.
ENOUGH_ROWS = 20
# A reason that holds for each row of a task, however few they are: its table lacks a column.
CERTAIN = "MissingColumnError"
_NUMBERS = re.compile(r"\d+")


class StageBrokenError(StrandlineError):
    """A stage failed every task it has seen; going on would fail them all."""

    is_lasting = True


@dataclass(slots=True)
class StageTally:
    """What went through one stage.

    Attributes:
        expected: failures of sources that have failed before.
        tolerates: see `StagePlan`.
    """

    name: str
    counts: StageCounts = field(default_factory=StageCounts)
    expected: int = 0
    tolerates: int | str | None = None

    def has_passed(self, more: StageCounts) -> bool:
        """Return whether the stage has passed anything, in a call of these counts or before."""
        own = self.counts
        return bool(own.tasks_out + own.filtered + more.tasks_out + more.filtered)

    def check_uniform(self, more: StageCounts, known_bad: Collection[bytes]) -> None:
        """Check that no task has failed as a whole before the stage has passed anything.

        Args:
            more: counts of a call, which may be counted already.
            known_bad: sources that have failed before, which say nothing new of the stage.

        Raises:
            StageBrokenError: one has.
        """
        found = more.uniform
        if found is None or found.source in known_bad or self.has_passed(more):
            return
        if self.tolerates is not None and count_tolerated(self.tolerates, found.rows) >= found.rows:
            return
        raise StageBrokenError(_describe(self.name, found))


def find_uniform(messages: Sequence[str], kind: str, rows: int) -> str | None:
    """Return the message of failed rows if it is one reason for all rows of a task, or None.

    Args:
        messages: of the rows that failed.
        kind: the name of the first error's class.
        rows: of the task.
    """
    if not messages or len(messages) < rows or (rows < ENOUGH_ROWS and kind != CERTAIN):
        return None
    reasons = {_NUMBERS.sub("0", message) for message in messages}
    return messages[0] if len(reasons) == 1 else None


def _describe(stage: str, found: UniformFailure) -> str:
    rows = "the only row" if found.rows == 1 else f"all {found.rows} rows"
    what = f"stage {stage!r} failed {rows} of its first task, of {found.key!r}: {found.message}"
    if found.fails_source:
        more = "if only this source is to blame, run again: the others are worked on then"
    else:
        more = "to write such rows as dead letters, set `tolerateRows: 100%`"
    return f"{what}; correct the stage, or the columns that come to it, and run again; {more}"
