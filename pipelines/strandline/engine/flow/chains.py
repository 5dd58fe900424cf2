"""Groups adjacent stages into chains, which run in one worker, one stage after the other.

Tokens, events, and outputs are the same as for stages in separate workers; a chain only saves the
transport between stages. This module has no side effects, and must not depend on the work of a
stage, or on the code that runs a chain.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from strandline.plan.pipeline import StagePlan
from strandline.plan.stages.stage import Shape


@dataclass(frozen=True)
class Chain:
    """Adjacent stages that run in one worker; often a single stage.

    Attributes:
        first: index of the chain's first stage.
        stages: the stages, in order.
    """

    first: int
    stages: tuple[StagePlan, ...]

    @cached_property
    def plan(self) -> StagePlan:
        """The chain as if it were one stage, with the resource requests of its workers."""
        least = max(stage.min_workers for stage in self.stages)
        return replace(self.stages[0], name=self.name, min_workers=least)

    @property
    def name(self) -> str:
        """Name of the only stage, or of the first and the last stage."""
        first, last = self.stages[0].name, self.stages[-1].name
        return first if len(self.stages) == 1 else f"{first} to {last}"

    @property
    def writes(self) -> bool:
        """Return whether the last stage is the sink."""
        return self.stages[-1].shape is Shape.SINK


def cut_chains(stages: Sequence[StagePlan], *, is_sink_apart: bool = False) -> list[Chain]:
    """Return the longest chains that the stages can form, in order.

    Args:
        is_sink_apart: whether sinks need separate workers, for example to stay on one node.
    """
    chains: list[list[StagePlan]] = []
    for stage in stages:
        before = chains[-1][-1] if chains else stage
        is_apart = is_sink_apart and (stage.writes or before.writes)
        if chains and not is_apart and explain_cut(chains[-1], stage) is None:
            chains[-1].append(stage)
        else:
            chains.append([stage])
    return list(_number(chains))


def list_apart(stages: Sequence[StagePlan]) -> list[Chain]:
    """Return a separate chain for each stage."""
    return list(_number([[stage] for stage in stages]))


def _number(chains: Sequence[Sequence[StagePlan]]) -> Iterator[Chain]:
    first = 0
    for chain in chains:
        yield Chain(first, tuple(chain))
        first += len(chain)


def explain_cut(chain: Sequence[StagePlan], stage: StagePlan) -> str | None:
    """Return the reason a stage can't share a worker with earlier stages, or None if it can.

    Args:
        chain: the preceding stages that share a worker.
    """
    return next((why for is_met, why in _CUTS if is_met(chain, stage)), None)


def _asks_alike(chain: Sequence[StagePlan], stage: StagePlan) -> bool:
    return _list_requests(chain[0]) == _list_requests(stage)


def _list_requests(stage: StagePlan) -> tuple[object, ...]:
    return stage.cpu, stage.gpu, stage.memory, stage.custom


def _list_bounds(stage: StagePlan) -> tuple[object, ...]:
    return stage.max_workers, stage.max_age, stage.max_memory


# In order of precedence: the first rule that applies is reported.
_CUTS: tuple[tuple[Callable[[Sequence[StagePlan], StagePlan], bool], str], ...] = (
    # The author may need isolation, for example if memory can hold a model only a few times.
    (lambda chain, stage: stage.isolate or chain[-1].isolate, "isolate"),
    # The members of a group come from several workers.
    (lambda _, stage: stage.group is not None, "group"),
    # If requests differ, a worker for the largest request would waste resources in other stages.
    (lambda chain, stage: not _asks_alike(chain, stage), "resources"),
    # A stage may fill its whole request. Several stages in one worker would have to share it.
    (lambda _, stage: bool(stage.memory or stage.max_memory), "memory"),
    (lambda _, stage: bool(stage.gpu), "gpu"),
    (lambda chain, stage: stage.runtime_env != chain[0].runtime_env, "runtimeEnv"),
    # A stage's maximum would limit the whole chain. Minimums may differ: the highest applies.
    (lambda chain, stage: _list_bounds(stage) != _list_bounds(chain[0]), "workers"),
    # The tasks for a shared file must be collected from all workers first.
    (lambda _, stage: stage.target_bytes is not None, "targetBytes"),
    # The timeout applies to a whole call, so the time of a single stage could not be checked.
    (lambda chain, stage: stage.timeout is not None or chain[-1].timeout is not None, "timeout"),
    # Filters in earlier stages would make batches smaller than the stage requests.
    (lambda chain, stage: stage.batch_size not in {1, chain[0].batch_size}, "batchSize"),
    # Only the first stage of a worker can stream its output; see `ChainCall`.
    (
        lambda _, stage: stage.streams and inspect.isgeneratorfunction(type(stage.stage).process),
        "streams",
    ),
)
