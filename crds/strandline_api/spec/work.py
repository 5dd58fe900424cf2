"""The work of a pipeline: source, stages, and sink.

This module defines the meaning of the fields. It must not depend on which stages are registered, or
on the parameters of a stage.
"""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from strandline_api.api_model import (
    LABEL_PATTERN,
    ApiModel,
    FreeObject,
    Label,
    Matching,
)
from strandline_api.notation.quantities import (
    PositiveDuration,
    Quantity,
    parse_duration,
    parse_memory,
)
from strandline_api.spec.policy import Tolerance

_IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]*"
# Matches `min-words`, `my_stages:MinWords`, and `team.stages:Text.MinWords`.
_USE_PATTERN = rf"{LABEL_PATTERN}|{_IDENTIFIER}(\.{_IDENTIFIER})*:{_IDENTIFIER}(\.{_IDENTIFIER})*"
_USE_LIKE = "a registered name such as 'read-files', or 'package.module:Class'"

Use = Annotated[str, Matching(_USE_PATTERN, _USE_LIKE)]
_Amount = Annotated[float, Field(ge=0)]


class Resources(ApiModel):
    """Resources that a worker of this item reserves."""

    cpu: float = Field(
        default=1, ge=0, description="CPU cores per worker, such as 2. 0.5 is half a core."
    )
    memory: Quantity | None = Field(
        default=None,
        description="Memory per worker, such as '2Gi' or '500Mi'. None is reserved when unset.",
    )
    gpu: float = Field(
        default=0, ge=0, description="GPUs per worker. With 0.5, two workers share one GPU."
    )
    custom: dict[str, _Amount] = Field(
        default={},
        max_length=64,
        description="Custom Ray resources per worker by name, such as 'nvdec: 1'.",
    )

    @property
    def memory_bytes(self) -> int | None:
        """Memory per worker in bytes, or None to reserve no memory."""
        return None if self.memory is None else parse_memory(self.memory)


class WorkerBounds(ApiModel):
    """How many workers an item may have, and when a worker is replaced."""

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

    min: int = Field(default=1, ge=1, description="Smallest number of workers.")
    max: int | None = Field(
        default=None,
        ge=1,
        description="Largest number of workers. The size of the cluster is the limit when unset.",
    )
    max_age: PositiveDuration | None = Field(
        default=None,
        description=(
            "Age after which a worker is replaced between two calls, such as '1h'. No limit when "
            "unset."
        ),
    )
    max_memory: Quantity | None = Field(
        default=None,
        description=(
            "Memory use above which a worker is replaced between two calls, such as '4Gi'. When "
            "unset, it is 90% of 'resources.memory' if that is set."
        ),
    )

    @property
    def max_age_seconds(self) -> float | None:
        """Age in seconds at which a worker is replaced, or None for no limit."""
        return None if self.max_age is None else parse_duration(self.max_age)

    @property
    def max_memory_bytes(self) -> int | None:
        """Memory in bytes above which a worker is replaced, or None if unset."""
        return None if self.max_memory is None else parse_memory(self.max_memory)

    @model_validator(mode="before")
    @classmethod
    def _refuse_bare_number(cls, data: object) -> object:
        # A CRD can't express "a number or an object", so reject a plain number on a laptop too.
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
        description=(
            "Stage to run: a registered name such as 'min-words', or 'package.module:Class' for a "
            "class of your own."
        )
    )
    given_name: Label | None = Field(
        default=None,
        alias="name",
        description=(
            "Name in logs, metrics and reports, unique in the pipeline. Defaults to 'use', or for "
            "a class to its name in kebab-case."
        ),
    )
    with_: FreeObject = Field(
        default={},
        alias="with",
        description=(
            "Parameters of the stage that 'use' names. 'strandline stages' lists those of the "
            "registered names."
        ),
    )
    resources: Resources = Field(
        default_factory=Resources, description="Resources that each worker of this item reserves."
    )
    workers: WorkerBounds = Field(
        default_factory=WorkerBounds,
        description="How many workers this item may have, and when a worker is replaced.",
    )
    runtime_env: FreeObject = Field(
        default={},
        description=(
            "Ray runtime environment of the workers, with keys such as 'pip' and 'env_vars'."
        ),
    )

    @property
    def name(self) -> str:
        """The given name, or else a name derived from `use`: a label of 1 to 63 characters."""
        return self.given_name or default_name(self.use)


class SinkWork(SourceWork):
    """The item that writes the results."""

    batch_size: int = Field(
        default=1, ge=1, description="Number of tasks that are passed to one call."
    )
    timeout: PositiveDuration | None = Field(
        default=None,
        description=(
            "Longest time that one task may take, such as '10m'. A batch may take that long for "
            "each of its tasks. After that the worker is replaced, and the source is retried "
            "alone. No limit when unset."
        ),
    )

    isolate: bool = Field(
        default=False,
        description=(
            "Keep this item in workers of its own. Otherwise neighbouring items with the same "
            "resources, environment and limits run in one worker, one after the other, which saves "
            "processes and copies. Set it if a worker has memory for only one item."
        ),
    )

    @property
    def timeout_seconds(self) -> float | None:
        """Seconds that one task may take, or None for no limit."""
        return None if self.timeout is None else parse_duration(self.timeout)


OnError = Literal["fail", "drop", "deadLetter"]


class StageWork(SinkWork):
    """An item between the source and the sink."""

    group: int | None = Field(
        default=None,
        ge=1,
        description=(
            "Group the children of one fan-out into calls of this many, in the order of their "
            "index. They are not grouped when unset."
        ),
    )
    on_error: OnError = Field(
        default="fail",
        description=(
            "Treatment of rows that raise an error: 'fail' fails the source, 'drop' drops and "
            "counts the row, 'deadLetter' writes the row and the error to the dead letters of the "
            "output. With the last two, the other rows of the source continue."
        ),
    )
    tolerate_rows: Tolerance | None = Field(
        default=None,
        description=(
            "Largest number of dead letters of this item with which a source still finishes, such "
            "as 10, or a percentage of the source's rows that reached the item, such as '0.1%'. No "
            "limit when unset."
        ),
    )
    keep: bool = Field(
        default=False,
        description=(
            "Keep this item's output of each source, next to the results, so that 'onChange: Redo' "
            "starts there if only later items have changed."
        ),
    )

    @model_validator(mode="after")
    def _check_tolerance(self) -> Self:
        if self.tolerate_rows is not None and self.on_error != "deadLetter":
            raise ValueError("'tolerateRows' counts dead letters; write 'onError: deadLetter'")
        return self


def default_name(use: str) -> str:
    """Derive an item's name from `use`: `min-words` is kept, `my:MinWords` gives `min-words`."""
    if ":" not in use:
        return use
    # Splits `HTTPCleaner2` into `HTTP`, `Cleaner`, and `2`.
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", re.split(r"[.:]", use)[-1])
    # Truncation may leave a hyphen at the end, and a class like `_` has no words.
    return "-".join(words).lower()[:63].rstrip("-") or "unnamed"


def name_conflicts(items: dict[str, SourceWork]) -> dict[str, Any]:
    """Find the first item with the name of an earlier item.

    Args:
        items: the items in pipeline order, by path, such as `stages[0]`.

    Returns:
        `name`, and the paths of both items as `first` and `second`; empty if there is no conflict.
    """
    seen: dict[str, str] = {}
    for path, item in items.items():
        if item.name in seen:
            return {"name": item.name, "first": seen[item.name], "second": path}
        seen[item.name] = path
    return {}
