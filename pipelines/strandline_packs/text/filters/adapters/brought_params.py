"""Parameters that a stage passes to another library's step, under the step's own names.

The module handles signatures, and must not depend on libraries.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any

from pydantic import ConfigDict

from strandline.plan.stages.stage import Stage

# Turns `minDocWords` into `min_doc_words`.
_CAPITAL = re.compile(r"(?<=[a-z0-9])([A-Z])")


class BroughtParams(Stage.Params):
    """Also accepts the step's own parameters, by their names or in camelCase."""

    model_config = ConfigDict(extra="allow")

    @property
    def values(self) -> dict[str, Any]:
        """Parameters to create the step with."""
        extra = self.model_extra or {}
        return {_CAPITAL.sub(r"_\1", name).lower(): value for name, value in extra.items()}


def check_signature(library: str, step: Any, values: Mapping[str, Any]) -> None:  # noqa: ANN401 - a class of the library's
    """Check parameters against the signature of a step.

    Raises:
        ValueError: a parameter is missing or unknown.
    """
    try:
        inspect.signature(step.__init__).bind(None, **values)
    except TypeError as error:
        msg = f"{library}'s {step.__name__}: {error}"
        raise ValueError(msg) from error


def check_refused(values: Mapping[str, Any], reasons: Mapping[str, str]) -> None:
    """Check that no parameter is unsupported.

    Args:
        reasons: reason and remedy by the name of the parameter.

    Raises:
        ValueError: a parameter is unsupported.
    """
    for name in values:
        if name in reasons:
            msg = f"{name} {reasons[name]}"
            raise ValueError(msg)
