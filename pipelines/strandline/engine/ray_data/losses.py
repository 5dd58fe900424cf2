"""The actor that hears what each worker begins, and what the driver makes of the workers it misses.

Ray Data starts a lost worker anew and says nothing of it, so a driver learns of it here alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from strandline.engine.core.pools import PoolState
from strandline.engine.core.ports import Control, Incidents
from strandline.engine.preemption.nodes import LostNodes
from strandline.engine.ray.scaler import list_nodes
from strandline.plan.receipt import Failure
from strandline_api.outcome.causes import Cause

DEATHS_PER_TASK = 3
DEATHS_PER_POOL = 4


class WorkPermission(IntEnum):
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
    call: bytes
    node: str
    log: str = ""

    @property
    def key(self) -> tuple[int, bytes]:
        return self.stage, self.call


class Deaths:
    """What is with each worker of a run, and what workers have died over.

    Args:
        is_gone: says whether a node has died.
    """

    def __init__(self, is_gone: Callable[[str], bool] = lambda _: False) -> None:
        self._is_gone = is_gone
        self._begun: dict[str, _Begun] = {}
        self._counts: Counter[tuple[int, bytes]] = Counter()
        self._logs: dict[tuple[int, bytes], tuple[str, str]] = {}
        self._culprits: dict[int, set[bytes]] = {}
        self._started: Counter[int] = Counter()
        self._lost: Counter[int] = Counter()
        self._is_left = False

    def begin(
        self,
        worker: str,
        process: int,
        stage: int,
        call: bytes,
        *,
        is_one: bool,
        node: str = "",
        log: str = "",
    ) -> WorkPermission:
        """Note that a worker is about to begin; return whether it may.

        Args:
            worker: its name, which it keeps when it is started anew.
            process: its pid, which it does not keep.
            call: a name that the same tasks have again; empty while the stage is set up.
            is_one: the work can't be taken apart.
            node: that it is on.
            log: file there with the worker's standard error.
        """
        before = self._begun.pop(worker, None)
        if before is not None and (before.process, before.node) != (process, node):
            # Another process under the same name: Ray Data has started the worker anew.
            self._record_loss(before)
        elif before is not None and not before.call:
            self._counts.pop(before.key, None)  # the worker came through being set up
        verdict = self._judge(stage, call, is_one=is_one)
        if verdict is WorkPermission.BEGIN:
            self._begun[worker] = _Begun(process, stage, call, node, log)
            self._started[stage] += not call
        return verdict

    def find_log(self, stage: int, call: bytes) -> tuple[str, str]:
        """Return the node and the log of the last worker that died over a call."""
        return self._logs.get((stage, call), ("", ""))

    def end(self, worker: str) -> None:
        """Note that a worker has ended what it had begun."""
        # The call before is kept: a worker may die over what it has made, or what it is given next.
        before = self._begun.get(worker)
        if before is not None and before.call:
            self._culprits.pop(before.stage, None)

    def leave(self) -> None:
        """Begin nothing from now on; what was begun may end."""
        self._is_left = True

    def is_left(self) -> bool:
        """Return whether nothing is begun any more."""
        return self._is_left

    def look(self, stages: int) -> list[StageDeaths]:
        """Return how the workers of each stage have fared, those of stage 0 first."""
        return [
            StageDeaths(self._started[stage], self._lost[stage], self._count_culprits(stage))
            for stage in range(stages)
        ]

    def _judge(self, stage: int, call: bytes, *, is_one: bool) -> WorkPermission:
        if self._is_left:  # a run that is left has no use for results
            return WorkPermission.LEAVE
        # Ray Data would start workers for ever.
        if self._count_culprits(stage) >= DEATHS_PER_POOL:
            return WorkPermission.BROKEN
        deaths = self._counts[stage, call]
        if deaths and not is_one:  # together, its neighbours would fail with the one to blame
            return WorkPermission.APART
        return WorkPermission.FAIL if deaths >= DEATHS_PER_TASK else WorkPermission.BEGIN

    def _count_culprits(self, stage: int) -> int:
        return len(self._culprits.get(stage, ()))

    def _record_loss(self, begun: _Begun) -> None:
        self._lost[begun.stage] += 1
        if begun.node and self._is_gone(begun.node):
            # A death with its node is no work's fault, and no sign of a stage that loses every
            # worker.
            return
        self._counts[begun.key] += 1
        self._logs[begun.key] = begun.node, begun.log
        self._culprits.setdefault(begun.stage, set()).add(begun.call)


def _is_gone(node: str) -> bool:
    """Return whether Ray knows of a node's death; a worker is started anew after that."""
    return any(each["NodeID"] == node and not each["Alive"] for each in ray.nodes())


class WorkerLosses:
    """Workers that were lost in this attempt.

    Args:
        names: of the stages.

    Attributes:
        actor: runs `Deaths`; workers ask it before they begin.
        anything_died: a worker was lost.
    """

    def __init__(self, names: Sequence[str], control: Control, incidents: Incidents) -> None:
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        # Where it is killed for memory, what it knew is lost: a task may have a few more workers.
        actor_class = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(Deaths)
        self.actor: Any = actor_class.options(scheduling_strategy=here).remote(_is_gone)
        self.anything_died = False
        self._names = names
        self._control = control
        self._incidents = incidents
        self._pools = [PoolState() for _ in names]
        self._short_of_memory: set[str] = set()
        self._marks = LostNodes()
        self.has_lost_node()

    def has_lost_node(self) -> bool:
        """Return whether a node has died since it was asked last."""
        return bool(self._marks.learn(list_nodes()[1]))

    def ask(self) -> Any:  # noqa: ANN401 - an object reference
        """Return the reference of what `note` takes."""
        return self.actor.look.remote(len(self._names))

    def note(self, seen: Sequence[StageDeaths]) -> None:
        """Tell of the workers that were lost since."""
        pools = [
            PoolState(
                started=stage_deaths.started, lost=stage_deaths.lost, deaths=stage_deaths.in_a_row
            )
            for stage_deaths in seen
        ]
        before, self._pools = self._pools, pools
        lost = [
            name
            for name, old, new in zip(self._names, before, pools, strict=True)
            for _ in range(new.lost - old.lost)
        ]
        if lost:
            self._report(lost, is_memory=bool(self._control.take_memory_kills()))

    def look(self) -> list[PoolState]:
        """Return workers of each stage that were set up and lost.

        More is known to Ray Data alone.
        """
        return self._pools

    def name_cause(self, failure: Failure) -> Failure:
        """Name the failure of work that killed its workers: for memory if that is what it was."""
        if failure.cause != Cause.KILLED.value or failure.stage not in self._short_of_memory:
            return failure
        self._incidents.memory_failures.append(failure.stage)
        return failure._replace(cause=Cause.OOM_KILLED.value)

    def find_cause(self) -> Cause | None:
        """Return why a pool is broken, where it was for memory."""
        return Cause.OOM_KILLED if self._short_of_memory else None

    def leave(self) -> None:
        """Have workers begin nothing more."""
        self.actor.leave.remote()

    def stop(self) -> None:
        """End the actor, and with it all that would begin."""
        ray.kill(self.actor)

    def _report(self, lost: Sequence[str], *, is_memory: bool) -> None:
        self.anything_died = True
        what = "was killed for memory" if is_memory else "was lost"
        for name in lost:
            if is_memory:
                self._short_of_memory.add(name)
            self._incidents.sentences.append(
                f"a worker of {name!r} {what}, its work is tried again"
            )
