"""Checks whether a machine could ever hold a worker of each stage, and when to stop waiting.

This module has no side effects. Callers query the machine's resources and pass them in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from strandline.engine.autoscaler.inputs import CPU, GPU, MEMORY
from strandline.engine.core.pools import PoolState
from strandline.engine.flow.stage_queue import StageQueue
from strandline.plan.errors import StrandlineError
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline_api.documents.problems import Problem, SpecError
from strandline_api.outcome.causes import Cause

GIGABYTE = 10**9
_HINT = "request less, or run on a larger cluster with --address"


class _Request(NamedTuple):
    """A worker's request for one resource kind; `field` is the field of the manifest."""

    field: str
    kind: str
    amount: float


def find_unmet(plan: PipelinePlan, have: Mapping[str, float]) -> Iterator[Problem]:
    """Yield a problem for each request that exceeds the resources of an empty machine.

    Args:
        have: the machine's resources under Ray's names: CPU, GPU, memory in bytes, and custom
            kinds.
    """
    last = len(plan.stages) - 1
    for index, stage in enumerate(plan.stages):
        at = "spec.sink" if index == last else f"spec.stages[{index}]"
        for field, kind, amount in _list_requests(stage):
            there = have.get(kind, 0.0)
            if amount > there:
                asks = f"stage {stage.name!r} requests {_format(kind, amount)} per worker"
                message = f"{asks}, but there {_describe_rest(kind, there)}"
                yield Problem(f"{at}.resources.{field}", message, _HINT)


def refuse_unmet(plan: PipelinePlan, have: Mapping[str, float]) -> None:
    """Reject a plan that would wait forever for resources that a machine lacks.

    Raises:
        SpecError: if `find_unmet` finds a problem.
    """
    problems = tuple(find_unmet(plan, have))
    if problems:
        raise SpecError(problems)


def asks_for_more_than_cpus(plan: PipelinePlan) -> bool:
    """Return whether the plan requests resources other than CPUs.

    If so, the caller must query all resources of the machine.
    """
    requests = (request for stage in plan.stages for request in _list_requests(stage))
    return any(request.amount > 0 and request.kind != CPU for request in requests)


def _list_requests(stage: StagePlan) -> Iterator[_Request]:
    yield _Request("cpu", CPU, stage.cpu)
    yield _Request("gpu", GPU, stage.gpu)
    yield _Request("memory", MEMORY, float(stage.memory or 0))
    for kind, amount in stage.custom.items():
        yield _Request(f"custom.{kind}", kind, amount)


def _describe_rest(kind: str, there: float) -> str:
    if not there:
        return f"is no {kind}"
    return f"is {_format(kind, there)}" if there == 1 else f"are {_format(kind, there)}"


def _format(kind: str, amount: float) -> str:
    if kind == MEMORY:
        return f"{amount / GIGABYTE:.3g} GB of memory"
    return f"{amount:g} {kind}"


class NoRoomError(StrandlineError):
    """Raised if no worker of a stage has started in time. The message lists the worker's needs."""

    cause = Cause.SCHEDULING_TIMEOUT
    is_lasting = True  # the next attempt would wait as long again


class FirstWorkers:
    """Measures how long each stage waits for its first ready worker.

    Args:
        limit: seconds that a stage with work may wait; None means no limit.
    """

    def __init__(self, limit: float | None) -> None:
        self._limit = limit
        self._since: dict[str, float] = {}
        self._begun: set[str] = set()

    def find_overdue(
        self, now: float, queues: Sequence[StageQueue], pools: Sequence[PoolState]
    ) -> int | None:
        """Return the index of the first stage that has waited too long for a worker, if any."""
        if self._limit is None:
            return None
        for number, (queue, pool) in enumerate(zip(queues, pools, strict=True)):
            if pool.ready:
                self._begun.add(queue.name)
            elif not len(queue):
                # Only time with work counts as waiting.
                self._since.pop(queue.name, None)
            elif self._measure_wait(queue.name, now) > self._limit:
                return number
        return None

    def _measure_wait(self, name: str, now: float) -> float:
        """Return how many seconds a stage has waited, or 0 if it has already had a worker."""
        return 0.0 if name in self._begun else now - self._since.setdefault(name, now)

    def refuse(self, name: str, why: str | None) -> NoRoomError:
        """Create the error that ends the run because a stage gets no worker.

        Args:
            why: reason why capacity is missing, or None if unknown.
        """
        why = why or f"no worker of {name!r} is ready"
        return NoRoomError(f"{why}; deadlines.preRunning ({self._limit:g} s) has passed")
