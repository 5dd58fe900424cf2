"""The actor that hears what each worker begins, and what the driver makes of the workers it misses.

Ray Data starts a lost worker anew and says nothing of it, so a driver learns of it here alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from strandline.engine.core.pools import PoolState
from strandline.engine.core.ports import Control
from strandline.engine.ray_data.deaths import Deaths, StageDeaths
from strandline.plan.receipt import Failure
from strandline_api.outcome.causes import Cause


class WorkerLosses:
    """Workers that were lost in this attempt.

    Args:
        names: of the stages.

    Attributes:
        actor: runs `Deaths`; workers ask it before they begin.
        anything_died: a worker was lost.
    """

    def __init__(self, names: Sequence[str], control: Control) -> None:
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        # Where it is killed for memory, what it knew is lost: a task may have a few more workers.
        actor_class = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(Deaths)
        self.actor: Any = actor_class.options(scheduling_strategy=here).remote()
        self.anything_died = False
        self._names = names
        self._control = control
        self._pools = [PoolState() for _ in names]
        self._short_of_memory: set[str] = set()

    def ask(self) -> Any:  # noqa: ANN401 - an object reference
        """The reference of what `note` takes."""
        return self.actor.look.remote(len(self._names))

    def note(self, seen: Sequence[StageDeaths]) -> None:
        """Tell of the workers that were lost since."""
        pools = [PoolState(started=one.started, lost=one.lost, deaths=one.in_a_row) for one in seen]
        before, self._pools = self._pools, pools
        lost = [
            name
            for name, old, new in zip(self._names, before, pools, strict=True)
            for _ in range(new.lost - old.lost)
        ]
        if lost:
            self._tell(lost, is_memory=bool(self._control.take_memory_kills()))

    def look(self) -> list[PoolState]:
        """Workers of each stage that were set up and lost; more is known to Ray Data alone."""
        return self._pools

    def name_cause(self, failure: Failure) -> Failure:
        """Where work has killed its workers: the failure, for memory if that is what it was."""
        if failure.cause != Cause.KILLED.value or failure.stage not in self._short_of_memory:
            return failure
        self._control.memory_failures.append(failure.stage)
        return failure._replace(cause=Cause.OOM_KILLED.value)

    def find_cause(self) -> Cause | None:
        """Why a pool is broken, where it was for memory."""
        return Cause.OOM_KILLED if self._short_of_memory else None

    def leave(self) -> None:
        """Have workers begin nothing more."""
        self.actor.leave.remote()

    def stop(self) -> None:
        """End the actor, and with it all that would begin."""
        ray.kill(self.actor)

    def _tell(self, lost: Sequence[str], *, is_memory: bool) -> None:
        self.anything_died = True
        what = "was killed for memory" if is_memory else "was lost"
        for name in lost:
            if is_memory:
                self._short_of_memory.add(name)
            self._control.incidents.append(f"a worker of {name!r} {what}, its work is tried again")
