"""What every object of the API has in common: how its fields are spelled and how strict they are.

A file means the same on a laptop as on a cluster, so these models are as strict as the API server:
no unknown field, no text where a number is due, and a null means "not given". This room must not
know any particular field.
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

from strandline_api.notation.quantities import shorten

T = TypeVar("T")
AnyModel = TypeVar("AnyModel", bound=BaseModel)


class ApiModel(BaseModel):
    """Base of all objects: camelCase in YAML, snake_case in Python, frozen, nothing extra."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        populate_by_name=True,
        alias_generator=to_camel,
        allow_inf_nan=False,
    )
    # Names of fields in which a null says something that an absent field does not.
    meaningful_nulls: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def drop_nulls(cls, data: object) -> object:
        """Treat `field: null` as absent, as the API server does."""
        if not isinstance(data, dict):
            return data
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
    """Return a model with other values of some fields.

    mypy knows names and types of the fields by `crds/evolve_types.py`.
    """
    return model.model_copy(update=changes)


def validated_by(*rules: tuple[str, str]) -> ConfigDict:
    """Describe rules in the API server's language, each with the sentence for its breach."""
    extensions: JsonValue = [{"rule": rule, "message": message} for rule, message in rules]
    return ConfigDict(json_schema_extra={"x-kubernetes-validations": extensions})


def keyed_by(name: str) -> dict[str, JsonValue]:
    """Describe in a schema that no two entries of a list may have the same `name`."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [name]}


@dataclass(frozen=True)
class Matching:
    """Refuse text that does not match, in one sentence, and say so in the schema.

    Stands in `Annotated[str, Matching(…)]`; pydantic takes it apart, as its protocol
    `annotated_types.GroupedMetadata` says.

    Attributes:
        pattern: regular expression without anchors; understood alike by Python and by Go.
        like: what the text must be, for the sentence "must be …, not …".
        longest: greatest length in characters.

    """

    pattern: str
    like: str
    longest: int = 253
    __is_annotated_types_grouped_metadata__: ClassVar[Literal[True]] = True

    def __iter__(self) -> Iterator[object]:
        """Give the check and the schema."""
        yield AfterValidator(self.check)
        yield WithJsonSchema(
            {"type": "string", "pattern": f"^({self.pattern})$", "maxLength": self.longest}
        )

    def check(self, text: str) -> str:
        """Give the text back.

        Raises:
            ValueError: it is too long or does not match.

        """
        if len(text) > self.longest:
            raise ValueError(f"must have at most {self.longest} characters, not {len(text)}")
        if re.fullmatch(self.pattern, text) is None:
            raise ValueError(f"must be {self.like}, not {shorten(text)}")
        return text


def distinct(values: tuple[T, ...]) -> tuple[T, ...]:
    """Refuse a list that holds the same value twice; it stands for a set."""
    repeated = next((value for at, value in enumerate(values) if value in values[:at]), None)
    if repeated is not None:
        raise ValueError(f"must not contain {shorten(str(repeated))} twice")
    return values


LABEL_PATTERN = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
SUBDOMAIN_PATTERN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_LABEL_LIKE = "lowercase letters, digits and '-', such as 'my-name'"
_SUBDOMAIN_LIKE = "lowercase letters, digits, '-' and '.', such as 'my-name'"

# A name of at most 63 characters that may stand in labels, host names and folder names.
Label = Annotated[str, Matching(LABEL_PATTERN, _LABEL_LIKE, longest=63)]
# The name of a Kubernetes object.
ObjectName = Annotated[str, Matching(SUBDOMAIN_PATTERN, _SUBDOMAIN_LIKE)]
# An object with fields that others define: a stage, Ray or Kubernetes.
FreeObject = Annotated[
    dict[str, JsonValue],
    WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
]
