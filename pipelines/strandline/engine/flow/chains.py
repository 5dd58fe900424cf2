"""Which neighbouring stages run in one worker, one after the other. Pure.

Tokens, events and outputs are those of stages that run apart; what is saved is the way between
them. It must not know what runs a chain, nor what a stage does.
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
    """Neighbouring stages that run in one worker; often a single one.

    Attributes:
        first: the number of its first stage.
        stages: in order.
    """

    first: int
    stages: tuple[StagePlan, ...]

    @cached_property
    def plan(self) -> StagePlan:
        """The requests of its workers, as if it were one stage."""
        least = max(stage.min_workers for stage in self.stages)
        return replace(self.stages[0], name=self.name, min_workers=least)

    @property
    def name(self) -> str:
        """The name of its stage, or those of the first and the last one."""
        first, last = self.stages[0].name, self.stages[-1].name
        return first if len(self.stages) == 1 else f"{first} to {last}"

    @property
    def writes(self) -> bool:
        """Return whether its last stage is the sink."""
        return self.stages[-1].shape is Shape.SINK


def cut_chains(stages: Sequence[StagePlan], *, is_sink_apart: bool = False) -> list[Chain]:
    """Return the longest chains that stages in order can form.

    Args:
        is_sink_apart: what writes must run where not all others can.
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
    """Return each stage by itself."""
    return list(_number([[stage] for stage in stages]))


def _number(chains: Sequence[Sequence[StagePlan]]) -> Iterator[Chain]:
    first = 0
    for chain in chains:
        yield Chain(first, tuple(chain))
        first += len(chain)


def explain_cut(chain: Sequence[StagePlan], stage: StagePlan) -> str | None:
    """Return why a stage does not run in the worker of those before it; None: it does.

    Args:
        chain: the stages before it that run in one worker.
    """
    return next((why for is_met, why in _CUTS if is_met(chain, stage)), None)


def _asks_alike(chain: Sequence[StagePlan], stage: StagePlan) -> bool:
    return _list_requests(chain[0]) == _list_requests(stage)


def _list_requests(stage: StagePlan) -> tuple[object, ...]:
    return stage.cpu, stage.gpu, stage.memory, stage.custom


def _list_bounds(stage: StagePlan) -> tuple[object, ...]:
    return stage.max_workers, stage.max_age, stage.max_memory


# The first one that is met is told.
_CUTS: tuple[tuple[Callable[[Sequence[StagePlan], StagePlan], bool], str], ...] = (
    # The author knows a reason to isolate, such as that a model fits into memory only a few times.
    (lambda chain, stage: stage.isolate or chain[-1].isolate, "isolate"),
    # A group's members come from several workers.
    (lambda _, stage: stage.group is not None, "group"),
    # A worker that has what the largest one wants would hold it while the others run.
    (lambda chain, stage: not _asks_alike(chain, stage), "resources"),
    # A stage fills what it asks for; in one worker several would have to share what one asked for.
    (lambda _, stage: bool(stage.memory or stage.max_memory), "memory"),
    (lambda _, stage: bool(stage.gpu), "gpu"),
    (lambda chain, stage: stage.runtime_env != chain[0].runtime_env, "runtimeEnv"),
    # A bound of one stage would bound all. A floor bounds none: the chain has the highest.
    (lambda chain, stage: _list_bounds(stage) != _list_bounds(chain[0]), "workers"),
    # Tasks for one file must come together first, from all workers.
    (lambda _, stage: stage.target_bytes is not None, "targetBytes"),
    # A call's time is looked at as a whole, and would say nothing of one stage.
    (lambda chain, stage: stage.timeout is not None or chain[-1].timeout is not None, "timeout"),
    # Filters above would leave it smaller batches than it asks for.
    (lambda chain, stage: stage.batch_size not in {1, chain[0].batch_size}, "batchSize"),
    # A stage's yields can travel on from the first stage of a worker only; see `ChainCall`.
    (
        lambda _, stage: stage.streams and inspect.isgeneratorfunction(type(stage.stage).process),
        "streams",
    ),
)
