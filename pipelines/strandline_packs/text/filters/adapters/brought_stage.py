"""Stage classes for the steps of other libraries, which are created at run time.

The module must not depend on libraries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

from pydantic import model_validator

from strandline.plan.stages.stage import Stage
from strandline_packs.text.filters.adapters.brought_params import BroughtParams

Adapter = Callable[[str], type[Stage]]


class BroughtStage(Stage):
    """A stage that runs a step of another library."""

    params: BroughtParams
    step_name: ClassVar[str] = ""
    adapt: ClassVar[Adapter]  # creates the class of the stage by the step's name

    def __reduce__(self) -> tuple[Any, ...]:
        # The class is made at run time, so pickle can't find the class by name.
        values = self.params.model_dump(by_alias=True)
        return _restore_stage, (type(self).adapt, self.step_name, values)


def create_class(
    base: type[BroughtStage], title: str, adapter: Adapter, name: str, check: Callable[[Any], None]
) -> type[Stage]:
    """Create a stage class for a step; `check` raises ValueError if parameters are wrong."""

    class AdaptedStage(base):  # type: ignore[misc, valid-type]  # a base that is known at run time only
        __doc__ = f"Runs {title}."
        step_name = name
        adapt = staticmethod(adapter)

        class Params(base.Params):  # type: ignore[misc, name-defined]  # see above
            __doc__ = base.Params.__doc__

            @model_validator(mode="after")
            def _check_values(self) -> Self:
                check(self)
                return self

    return AdaptedStage


def _restore_stage(adapter: Adapter, name: str, values: dict[str, Any]) -> Stage:
    stage_class = adapter(name)
    return stage_class(stage_class.Params.model_validate(values))
