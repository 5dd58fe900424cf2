"""Base class of all API objects, which defines the spelling of fields and strict validation.

A file means the same on a laptop as on a cluster, so these models are as strict as the API server:
they reject unknown fields and text in place of a number, and treat null as "not given". This module
must not depend on any particular field.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Annotated, ClassVar, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    JsonValue,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel

from strandline_api.notation.excerpts import shorten

T = TypeVar("T")
AnyModel = TypeVar("AnyModel", bound=BaseModel)


class ApiModel(BaseModel):
    """Base of all API objects: camelCase in YAML, snake_case in Python, immutable, strict."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        populate_by_name=True,
        alias_generator=to_camel,
        # JSON has no infinity and no NaN.
        allow_inf_nan=False,
    )
    # Names of fields for which null differs from an absent field.
    meaningful_nulls: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def drop_nulls(cls, data: object) -> object:
        """Treat `field: null` as absent, as the API server does."""
        if not isinstance(data, dict):
            return data
        # Keep nulls of unknown fields, so that `stagess: null` is still reported as unknown.
        droppable = cls._list_aliases() - cls.meaningful_nulls
        return {
            key: value for key, value in data.items() if value is not None or key not in droppable
        }

    @classmethod
    @cache
    def _list_aliases(cls) -> frozenset[str]:
        aliases = (field.alias or name for name, field in cls.model_fields.items())
        return frozenset(cls.model_fields) | frozenset(aliases)


def evolve(model: AnyModel, **changes: object) -> AnyModel:
    """Return a copy of a model with changed fields.

    mypy checks the fields' names and types through `crds/evolve_types.py`.
    """
    return model.model_copy(update=changes)


def validated_by(*rules: tuple[str, str]) -> ConfigDict:
    """Return a model configuration with CEL rules for the API server, with their error messages."""
    extensions: JsonValue = [{"rule": rule, "message": message} for rule, message in rules]
    return ConfigDict(json_schema_extra={"x-kubernetes-validations": extensions})


def keyed_by(name: str) -> dict[str, JsonValue]:
    """Return schema keys that require unique values of the field `name` in a list."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [name]}


@dataclass(frozen=True)
class Matching:
    """Rejects text that does not match a pattern, and adds the pattern to the schema.

    Use it as `Annotated[str, Matching(…)]`. Pydantic expands it through the protocol
    `annotated_types.GroupedMetadata`.

    Attributes:
        pattern: regular expression without anchors that means the same in Python and Go.
        like: description of valid text, for the message "must be …, not …".
        longest: maximum length in characters.
    """

    pattern: str
    like: str
    longest: int = 253
    __is_annotated_types_grouped_metadata__: ClassVar[Literal[True]] = True

    def __iter__(self) -> Iterator[object]:
        """Yield the validator and the schema keys."""
        yield AfterValidator(self.check)
        yield WithJsonSchema(
            {"type": "string", "pattern": f"^({self.pattern})$", "maxLength": self.longest}
        )

    def check(self, text: str) -> str:
        """Return the text unchanged.

        Raises:
            ValueError: if the text is too long or does not match.
        """
        if len(text) > self.longest:
            raise ValueError(f"must have at most {self.longest} characters, not {len(text)}")
        # Match the whole text: in Python, `$` also matches before a line break at the end.
        if re.fullmatch(self.pattern, text) is None:
            raise ValueError(f"must be {self.like}, not {shorten(text)}")
        return text


def distinct(values: tuple[T, ...]) -> tuple[T, ...]:
    """Reject a list with duplicate values, for fields that represent a set."""
    # Compare by equality, because entries may be unhashable. Lists in specs are short, so the
    # quadratic search is fast enough.
    repeated = next((value for at, value in enumerate(values) if value in values[:at]), None)
    if repeated is not None:
        raise ValueError(f"must not contain {shorten(str(repeated))} twice")
    return values


# Matches `a` and `my-name`, at most 63 characters, but not `-a`, `a-`, or `My`.
LABEL_PATTERN = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
# Matches `my-name` and `team.corpus-2`, but not `a..b` or `a.-b`.
SUBDOMAIN_PATTERN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_LABEL_LIKE = "lowercase letters, digits and '-', such as 'my-name'"
_SUBDOMAIN_LIKE = "lowercase letters, digits, '-' and '.', such as 'my-name'"

# A name of at most 63 characters that is valid in labels, host names, and folder names.
Label = Annotated[str, Matching(LABEL_PATTERN, _LABEL_LIKE, longest=63)]
# The name of a Kubernetes object.
ObjectName = Annotated[str, Matching(SUBDOMAIN_PATTERN, _SUBDOMAIN_LIKE)]
# An object whose fields are defined elsewhere: by a stage, Ray, or Kubernetes.
FreeObject = Annotated[
    dict[str, JsonValue],
    WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
]
