"""Which work a worker died over, told from what each worker said it had begun.

Pure. For an engine that does not see its workers die, and would start them anew for ever: a worker
names a piece of work before it begins and says when it has ended; one that comes back as another
process died over what it had begun, or soon after.
"""

from __future__ import annotations

from collections import Counter
from enum import IntEnum
from typing import NamedTuple

DEATHS_PER_TASK = 3
DEATHS_PER_POOL = 4


class Verdict(IntEnum):
    """What a worker is to do with work that it wants to begin."""

    BEGIN = 0
    APART = 1  # task by task, since a worker died over the whole
    FAIL = 2  # it has had all the workers that a task may have
    BROKEN = 3  # the stage loses every worker
    LEAVE = 4  # nothing is begun any more


class StageDeaths(NamedTuple):
    """Workers of a stage: set up, lost, and lost in a row over different work."""

    started: int
    lost: int
    in_a_row: int


class _Begun(NamedTuple):
    process: int
    stage: int
    work: bytes

    @property
    def key(self) -> tuple[int, bytes]:
        return self.stage, self.work


class Deaths:
    """What is with each worker of a run, and what workers have died over."""

    def __init__(self) -> None:
        self._begun: dict[str, _Begun] = {}
        self._counts: Counter[tuple[int, bytes]] = Counter()
        self._culprits: dict[int, set[bytes]] = {}
        self._started: Counter[int] = Counter()
        self._lost: Counter[int] = Counter()
        self._is_left = False

    def begin(self, worker: str, process: int, stage: int, work: bytes, *, is_one: bool) -> Verdict:
        """A worker is about to begin.

        Args:
            worker: its name, which it keeps when it is started anew.
            process: its pid, which it does not keep.
            work: a name that the same tasks have again; empty while the stage is set up.
            is_one: the work can't be taken apart.
        """
        before = self._begun.pop(worker, None)
        if before is not None and before.process != process:
            self._bury(before)
        elif before is not None and not before.work:
            self._counts.pop(before.key, None)  # it came through being set up
        verdict = self._judge(stage, work, is_one=is_one)
        if verdict is Verdict.BEGIN:
            self._begun[worker] = _Begun(process, stage, work)
            self._started[stage] += not work
        return verdict

    def end(self, worker: str) -> None:
        """A worker has ended what it had begun."""
        # What it was is kept: a worker may die over what it has made, or what it is given next.
        before = self._begun.get(worker)
        if before is not None and before.work:
            self._culprits.pop(before.stage, None)

    def leave(self) -> None:
        """From now on nothing is begun; what was may end."""
        self._is_left = True

    def look(self, stages: int) -> list[StageDeaths]:
        """How the workers of each stage have fared, those of stage 0 first."""
        return [
            StageDeaths(self._started[stage], self._lost[stage], self._count_culprits(stage))
            for stage in range(stages)
        ]

    def _judge(self, stage: int, work: bytes, *, is_one: bool) -> Verdict:
        if self._is_left:
            return Verdict.LEAVE
        if self._count_culprits(stage) >= DEATHS_PER_POOL:
            return Verdict.BROKEN
        deaths = self._counts[stage, work]
        if deaths and not is_one:
            return Verdict.APART
        return Verdict.FAIL if deaths >= DEATHS_PER_TASK else Verdict.BEGIN

    def _count_culprits(self, stage: int) -> int:
        return len(self._culprits.get(stage, ()))

    def _bury(self, begun: _Begun) -> None:
        self._counts[begun.key] += 1
        self._culprits.setdefault(begun.stage, set()).add(begun.work)
        self._lost[begun.stage] += 1
