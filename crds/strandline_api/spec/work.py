"""The work of a pipeline: where sources come from, what happens to them, where results go.

This room says what the fields mean. It must not know which names are registered, nor what
parameters they take.
"""

import re
from typing import Annotated, Any, Self

from pydantic import AfterValidator, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from strandline_api.api_model import (
    LABEL_PATTERN,
    ApiModel,
    FreeObject,
    Label,
    matching,
    text_schema,
)
from strandline_api.quantities import PositiveDuration, Quantity, parse_duration, parse_memory

_IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]*"
_USE_PATTERN = rf"{LABEL_PATTERN}|{_IDENTIFIER}(\.{_IDENTIFIER})*:{_IDENTIFIER}(\.{_IDENTIFIER})*"
_USE_LIKE = "a registered name such as 'read-files', or 'package.module:Class'"

Use = Annotated[
    str,
    AfterValidator(matching(_USE_PATTERN, _USE_LIKE)),
    WithJsonSchema(text_schema(_USE_PATTERN)),
]
_Amount = Annotated[float, Field(ge=0)]


class Resources(ApiModel):
    """What one worker of this item reserves."""

    cpu: float = Field(default=1, ge=0, description="CPU cores per worker; 0.5 is half a core.")
    memory: Quantity | None = Field(
        default=None,
        description="Memory per worker, such as '2Gi'. Not reserved when unset.",
    )
    gpu: float = Field(default=0, ge=0, description="GPUs per worker; 0.5 shares one by two.")
    custom: dict[str, _Amount] = Field(
        default={},
        max_length=64,
        description="Other Ray resources per worker by name, such as 'nvdec: 1'.",
    )

    @property
    def memory_bytes(self) -> int | None:
        """Memory per worker in bytes; None where none is reserved."""
        return None if self.memory is None else parse_memory(self.memory)


class WorkerBounds(ApiModel):
    """How many workers one item may have, and when one of them is replaced."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                {
                    "rule": "!has(self.min) || !has(self.max) || self.max >= self.min",
                    "message": "'max' must be at least 'min'",
                }
            ]
        }
    )

    min: int = Field(default=1, ge=1, description="Least number of workers.")
    max: int | None = Field(
        default=None,
        ge=1,
        description="Greatest number of workers. The cluster's size is the limit when unset.",
    )
    max_age: PositiveDuration | None = Field(
        default=None,
        description="Replace a worker that is older, such as '1h', between two calls. No limit "
        "when unset.",
    )
    max_memory: Quantity | None = Field(
        default=None,
        description="Replace a worker that takes more memory, such as '4Gi', between two calls. "
        "When unset, nine tenths of 'resources.memory', where that is given.",
    )

    @property
    def max_age_seconds(self) -> float | None:
        """Age in seconds at which a worker is replaced; None: no limit."""
        return None if self.max_age is None else parse_duration(self.max_age)

    @property
    def max_memory_bytes(self) -> int | None:
        """Memory in bytes above which a worker is replaced; None where none is asked for."""
        return None if self.max_memory is None else parse_memory(self.max_memory)

    @model_validator(mode="before")
    @classmethod
    def _refuse_bare_number(cls, data: object) -> object:
        # A CRD cannot offer "a number or an object", and a laptop must not take what it refuses.
        if isinstance(data, int) and not isinstance(data, bool):
            raise PydanticCustomError(
                "bare_number",
                "must be an object; write 'min: {count}, max: {count}'",
                {"count": data},
            )
        return data

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.max is not None and self.max < self.min:
            raise ValueError(f"'max' must be at least 'min', which is {self.min}, not {self.max}")
        return self


class SourceWork(ApiModel):
    """The item that lists and reads the sources."""

    use: Use = Field(
        description="What runs: a registered name, or 'package.module:Class' for a class of yours."
    )
    given_name: Label | None = Field(
        default=None,
        alias="name",
        description=(
            "Name in logs, metrics and reports, unique in the pipeline. Defaults to 'use', "
            "for a class to its name in kebab-case."
        ),
    )
    with_: FreeObject = Field(
        default={}, alias="with", description="Parameters; which ones there are, 'use' decides."
    )
    resources: Resources = Field(
        default_factory=Resources, description="What one worker of this item reserves."
    )
    workers: WorkerBounds = Field(
        default_factory=WorkerBounds,
        description="How many workers this item may have, and when one is replaced.",
    )
    runtime_env: FreeObject = Field(
        default={},
        description="Ray runtime environment of the workers: 'pip', 'env_vars' and so on.",
    )

    @property
    def name(self) -> str:
        """The given name, else one made from `use`; a lowercase label of 1 to 63 characters."""
        return self.given_name or default_name(self.use)


class SinkWork(SourceWork):
    """The item that writes the results."""

    batch_size: int = Field(default=1, ge=1, description="Tasks handed over in one call.")
    timeout: PositiveDuration | None = Field(
        default=None,
        description="Longest that one task may take, such as '10m'; a batch may take that times "
        "its tasks. Past it the worker is replaced, and the source is tried apart from others. No "
        "limit when unset.",
    )

    @property
    def timeout_seconds(self) -> float | None:
        """Seconds that one task may take; None: no limit."""
        return None if self.timeout is None else parse_duration(self.timeout)


class StageWork(SinkWork):
    """One item between the source and the sink."""

    group: int | None = Field(
        default=None,
        ge=1,
        description=(
            "Join the children of one fan-out by this many, in the order of their index. "
            "Nothing is joined when unset."
        ),
    )


def default_name(use: str) -> str:
    """Name an item after what it uses: `min-words` stays, `my.stages:MinWords` is `min-words`."""
    if ":" not in use:
        return use
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", re.split(r"[.:]", use)[-1])
    return "-".join(words).lower()[:63].rstrip("-") or "unnamed"


def name_conflicts(items: dict[str, SourceWork]) -> dict[str, Any]:
    """Find the first item whose name an earlier one has.

    Args:
        items: the items in pipeline order by their path, such as `stages[0]`.

    Returns:
        Empty without a conflict, else `name`, `first` and `second` (paths).

    """
    seen: dict[str, str] = {}
    for path, item in items.items():
        if item.name in seen:
            return {"name": item.name, "first": seen[item.name], "second": path}
        seen[item.name] = path
    return {}
