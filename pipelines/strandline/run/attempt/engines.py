"""The engines by name: their limits and constructors. Only this module chooses an engine.

An engine is imported only when chosen, because the command line needs the names without the cost of
loading Ray.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from strandline_api.documents.problems import Problem, SpecError

if TYPE_CHECKING:  # load engines only when chosen
    from strandline.engine.core.ports import Engine
    from strandline.ledger.access.session import LedgerSession
    from strandline.plan.pipeline import PipelinePlan
    from strandline.run.attempt.config import AttemptConfig
    from strandline.storage.outputs.ports import OutputLocation
    from strandline_api.objects.pipeline import PipelineSpec
    from strandline_api.spec.work import SinkWork

    Maker = Callable[[OutputLocation, LedgerSession | None], Engine]


# `IN_DRIVER` starts no process, `FORKED` forks workers, and several attempts can share the Ray
# cluster that `SHARED` starts.
IN_DRIVER, FORKED, SHARED = "inline", "processes", "ray"
ON_ONE_MACHINE = (IN_DRIVER, FORKED)  # usable by `strandline run` only; manifests can't name them


def choose_engine(
    asked: str | None, spec: PipelineSpec, address: str | None, plan: PipelinePlan | None = None
) -> str:
    """Return the engine of a run: the requested engine, or the engine in the manifest.

    If neither is set, a run on this machine alone avoids Ray, unless a stage needs Ray.

    Args:
        address: address of an existing Ray cluster, if any.
        plan: the plan of the same pipeline, or None to check the manifest without loading stages.
    """
    is_open = asked is None and "engine" not in spec.model_fields_set
    # An address implies a cluster, which only Ray supports.
    if not is_open or address or os.environ.get("RAY_ADDRESS"):
        return asked or spec.engine
    needs_ray = any(_needs_ray(work) for work in (*spec.stages, spec.sink))
    if plan is not None and not needs_ray:
        from strandline.engine.processes.engine import list_refused  # noqa: PLC0415 - see above

        needs_ray = any(True for _ in list_refused(plan))
    return spec.engine if needs_ray else FORKED


def _needs_ray(work: SinkWork) -> bool:
    from strandline.engine.processes.bounds import find_beyond  # noqa: PLC0415 - see above

    asked = work.resources
    return bool(find_beyond(asked.cpu, asked.gpu, asked.memory, asked.custom, work.runtime_env))


def check_engine(config: AttemptConfig) -> None:
    """Check that the engine supports everything in the configuration.

    Raises:
        SpecError: if the engine does not support something.
    """
    _CHOICES[config.engine](config)


def make_engine(
    config: AttemptConfig, outputs: OutputLocation, session: LedgerSession | None = None
) -> Engine:
    """Return the engine chosen in the configuration.

    Args:
        session: session of the ledger, for an engine that opens the ledger in this process.

    Raises:
        SpecError: see `check_engine`.
    """
    return _CHOICES[config.engine](config)(outputs, session)


@contextmanager
def keeping_started(name: str | None) -> Iterator[None]:
    """Until the block ends, share the processes that the engine starts here among attempts.

    Args:
        name: the engine, or None to share nothing.
    """
    if name == FORKED:
        from strandline.engine.processes.fork_program import (  # noqa: PLC0415 - see above
            ending_ahead,
        )

        with ending_ahead():
            yield
        return
    if name != SHARED:
        yield
        return
    try:
        from strandline.engine.ray.connection import sharing_local  # noqa: PLC0415 - see above
    except ImportError:  # a run that needs Ray reports this error
        yield
        return
    with sharing_local():
        yield


def start_next(name: str) -> None:
    """Start the processes of the next attempt in a `keeping_started` block, if the engine can."""
    if name == FORKED:
        from strandline.engine.processes.fork_program import (  # noqa: PLC0415 - see above
            start_ahead,
        )

        start_ahead()


def works_in_driver(name: str | None) -> bool:
    """Return True if the engine runs stages in the driver's own process.

    With such an engine, a long task or a user at a breakpoint would look like a stall.

    Args:
        name: the engine, or None if no engine was named.
    """
    return name == IN_DRIVER


def find_unmet_here(plan: PipelinePlan, engine: str) -> tuple[Problem, ...]:
    """Return why this machine would reject a run of the plan; empty if it would not.

    If the check needs Ray and Ray is missing, the result is empty, too.

    Args:
        engine: an entry of `ENGINES`.
    """
    from strandline.engine.autoscaler.capacity import (  # noqa: PLC0415 - see above
        asks_for_more_than_cpus,
        find_unmet,
    )
    from strandline.engine.autoscaler.inputs import CPU  # noqa: PLC0415 - see above

    if works_in_driver(engine):
        return ()
    if not asks_for_more_than_cpus(plan):  # avoid loading Ray, which is slow
        # The affinity counts usable cores, `cpu_count` all cores of the machine.
        return tuple(find_unmet(plan, {CPU: float(len(os.sched_getaffinity(0)))}))
    try:
        from strandline.engine.ray.connection import find_capacity  # noqa: PLC0415 - see above
    except ImportError:
        return ()
    have = find_capacity(None, is_whole=True)
    return () if have is None else tuple(find_unmet(plan, have))


def _refuse_here(config: AttemptConfig) -> None:
    from strandline.engine.autoscaler.capacity import (  # noqa: PLC0415 - see above
        asks_for_more_than_cpus,
        refuse_unmet,
    )
    from strandline.engine.ray.connection import find_capacity  # noqa: PLC0415 - see above

    if config.address:  # only the cluster can check its capacity, because it may grow
        return
    have = find_capacity(config.workers, is_whole=asks_for_more_than_cpus(config.plan))
    if have is not None:
        refuse_unmet(config.plan, have)


def _choose_ray(config: AttemptConfig) -> Maker:
    from strandline.engine.ray.engine import RayEngine  # noqa: PLC0415 - see above

    _refuse_here(config)
    return lambda outputs, _: RayEngine(
        outputs, config.address, config.workers, config.wait if config.address else None
    )


def _choose_inline(_: AttemptConfig) -> Maker:
    from strandline.engine.inline import InlineEngine  # noqa: PLC0415 - see above

    return lambda outputs, session: InlineEngine(outputs, _dump_as_ray_does, session)


def _choose_processes(config: AttemptConfig) -> Maker:
    from strandline.engine.processes.engine import (  # noqa: PLC0415 - see above
        ProcessEngine,
        list_refused,
    )

    problems = tuple(list_refused(config.plan))
    if config.address:
        message = "the engine `processes` runs only on this machine"
        problems = (Problem("", message, f"omit --address {config.address}"), *problems)
    if problems:
        raise SpecError(problems)
    return lambda outputs, session: ProcessEngine(outputs, config.workers, dump_portably, session)


def _dump_as_ray_does(data: object, **how: Any) -> bytes:  # noqa: ANN401 - as `pickle.dumps`
    """Pickle a stage's output as Ray would, or with plain `pickle` if Ray is missing."""
    try:
        from strandline.engine.ray.pickling import dumps  # noqa: PLC0415 - slow to load
    except ImportError:
        return pickle.dumps(data, **how)
    packed: bytes = dumps(data, **how)
    return packed


def dump_portably(data: object, **how: Any) -> bytes:  # noqa: ANN401 - as `pickle.dumps`
    """Pickle data for another process. Use Ray's pickler only if Python's can't.

    Python pickles objects of the main program as part of `__main__`, which is a different module in
    the other process.
    """
    take, buffers = how.pop("buffer_callback", None), list[pickle.PickleBuffer]()
    how["protocol"] = how.get("protocol", pickle.HIGHEST_PROTOCOL)
    quick = how if take is None else how | {"buffer_callback": buffers.append}
    with suppress(Exception):  # on an error, use Ray's pickler, which may raise a better error
        packed = pickle.dumps(data, **quick)
        if b"__main__" not in packed:
            for buffer in buffers:
                take(buffer)
            return packed
    return _dump_as_ray_does(data, **how, **({} if take is None else {"buffer_callback": take}))


_CHOICES: dict[str, Callable[[AttemptConfig], Maker]] = {
    SHARED: _choose_ray,
    IN_DRIVER: _choose_inline,
    FORKED: _choose_processes,
}
ENGINES = tuple(_CHOICES)
