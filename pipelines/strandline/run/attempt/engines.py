"""The engines by name, and what each can't do; one is imported only where it was chosen."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from strandline.plan.errors import StrandlineError
from strandline_api.documents.problems import Problem, SpecError
from strandline_api.outcome.exit_codes import ExitCode

if TYPE_CHECKING:  # the command line knows the names, and loads nothing that runs
    from strandline.engine.core.ports import Ending
    from strandline.plan.pipeline import PipelinePlan

ENGINES = ("ray", "inline", "ray-data")
_RAY_DATA = "ray-data"


class EngineMissingError(StrandlineError):
    """The chosen engine is not installed; the message says how to."""

    exit_code: ClassVar[ExitCode] = ExitCode.BAD_SPEC


def check_engine(name: str, plan: PipelinePlan, address: str | None) -> None:
    """Look whether an engine is here and can do all that is asked for.

    Args:
        address: of a Ray cluster; None: a local one.

    Raises:
        EngineMissingError: a library that it needs is not here.
        SpecError: it can't do something.
    """
    if name == "inline":
        return
    find_ray_engine(name)
    problems = (*_find_refused(plan), *_refuse_client(address)) if name == _RAY_DATA else ()
    if problems:
        raise SpecError(problems)


def find_ray_engine(name: str) -> Callable[..., Ending]:
    """`run_ray`, or what takes its place; `inline` works without Ray.

    Raises:
        EngineMissingError: a library that it needs is not here.
    """
    if name != _RAY_DATA:
        from strandline.engine.ray.driver import run_ray  # noqa: PLC0415 - see above

        return run_ray
    try:
        from strandline.engine.ray_data.engine import run_ray_data  # noqa: PLC0415 - see above
    except ImportError as error:
        why = str(error) or type(error).__name__
        msg = f"the engine ray-data is not installed ({why}); install strandline[ray-data]"
        raise EngineMissingError(msg) from error
    return run_ray_data


def dump_as_ray_does(data: object, **how: Any) -> bytes:  # noqa: ANN401 - as `pickle.dumps`
    """Pickle what a stage hands on as Ray would; without Ray, as Python does by itself."""
    try:
        from strandline.engine.ray.pickling import dumps  # noqa: PLC0415 - slow to load
    except ImportError:
        return pickle.dumps(data, **how)
    packed: bytes = dumps(data, **how)
    return packed


def _find_refused(plan: PipelinePlan) -> Iterator[Problem]:
    """What Ray Data has no means for: to replace a worker that is neither dead nor idle."""
    last = len(plan.stages) - 1
    for index, stage in enumerate(plan.stages):
        at = "spec.sink" if index == last else f"spec.stages[{index}]"
        asked = {
            "workers.maxAge": stage.max_age,
            "workers.maxMemory": stage.max_memory,
            "timeout": stage.timeout,
        }
        for field, value in asked.items():
            if value is not None:
                name = field.rpartition(".")[2]
                message = f"the engine ray-data can't replace workers by {name}"
                yield Problem(f"{at}.{field}", message, "leave it out, or use --engine ray")


def _refuse_client(address: str | None) -> Iterator[Problem]:
    if address is not None and address.startswith("ray://"):
        message = f"the engine ray-data can't work through Ray Client, which {address} asks for"
        yield Problem("", message, "run it on the cluster with --address auto")
