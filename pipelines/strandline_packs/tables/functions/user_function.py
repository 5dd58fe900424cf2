"""Functions of the user as parameters of stages.

YAML names a function as `module:function`. In Python, the parameter may also be the function.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, cast

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from strandline.plan.fingerprint import MODULE_NAME
from strandline.plan.stages.packs import load_target

Function = Callable[..., Any]


def load_function(named: str | Function) -> Function:
    """Return the function of a parameter.

    Raises:
        ImportError: the module can't be imported, or has no such function.
    """
    return cast("Function", load_target(named)) if isinstance(named, str) else named


def name_function(named: str | Function) -> str:
    """Return the name of a function for messages and drop reasons."""
    if isinstance(named, str):
        return named.rpartition(":")[2]
    inner = named.func if isinstance(named, partial) else named
    name = getattr(inner, "__name__", type(inner).__name__)
    return "lambda" if name == "<lambda>" else str(name)


def _check(value: object) -> str | Function:
    if isinstance(value, str):
        if not MODULE_NAME.fullmatch(value):
            msg = f"must be `module:function`, not {value!r}"
            raise ValueError(msg)
        try:
            function = load_target(value)
        except ImportError as error:
            raise ValueError(str(error)) from error
        if not callable(function):
            msg = f"{value!r} is {type(function).__name__}, not a function"
            raise ValueError(msg)  # noqa: TRY004 - the class of errors that pydantic reports
        return value
    if not callable(value):
        msg = f"must be a function, or its name as `module:function`, not {value!r}"
        raise ValueError(msg)  # noqa: TRY004 - see above
    return _find_name(value) or value


def _find_name(function: Function) -> str | None:
    """Return `module:function` if workers find the same function by this name, or None.

    YAML and Python then give the same fingerprint.
    """
    module, name = getattr(function, "__module__", None), getattr(function, "__name__", "")
    if module in {None, "__main__"} or getattr(sys.modules.get(module), name, None) is not function:
        return None
    return f"{module}:{name}"


FunctionParam = Annotated[
    Any,
    PlainValidator(_check),
    PlainSerializer(lambda named: named if isinstance(named, str) else name_function(named)),
    WithJsonSchema({"type": "string"}),
]
