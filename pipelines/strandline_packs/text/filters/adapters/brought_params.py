"""Parameters of a step of another library: by its own names, beside those of the stage.

It knows signatures, no library.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict

from strandline.plan.stages.stage import Stage

_CAPITAL = re.compile(r"(?<=[a-z0-9])([A-Z])")


class BroughtParams(Stage.Params):
    """The step's own parameters, by its own names or in camelCase, beside these."""

    model_config = ConfigDict(extra="allow")

    @property
    def values(self) -> dict[str, Any]:
        """Parameters that the step is made with."""
        extra = self.model_extra or {}
        return {_CAPITAL.sub(r"_\1", name).lower(): value for name, value in extra.items()}


def check_signature(library: str, step: Any, values: Mapping[str, Any]) -> None:  # noqa: ANN401 - a class of the library's
    """Check parameters against what a step takes.

    Raises:
        ValueError: it lacks one, or takes no such parameter.
    """
    try:
        inspect.signature(step.__init__).bind(None, **values)
    except TypeError as error:
        msg = f"{library}'s {step.__name__}: {error}"
        raise ValueError(msg) from error


def check_refused(values: Mapping[str, Any], reasons: Mapping[str, str]) -> None:
    """Check that no parameter is among those that a run can't have.

    Args:
        reasons: why, and what to do, by the name of the parameter.

    Raises:
        ValueError: one is.
    """
    for name in values:
        if name in reasons:
            msg = f"{name} {reasons[name]}"
            raise ValueError(msg)
