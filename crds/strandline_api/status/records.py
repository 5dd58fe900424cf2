"""Base of what an operator writes: strict when it is made, forgiving when it is read.

An older or a newer operator may have written what is read, and a pass must not end because of
that: what cannot be understood counts as not given. Words of a status are open in the schema, so
that an operator that knows a new one works with a definition that does not. This room must not
know any particular field.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, Self, TypeVar

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    field_validator,
    model_serializer,
)

from strandline_api.api_model import ApiModel
from strandline_api.texts import fitting

W = TypeVar("W", bound=StrEnum)

MAX_COUNT = 2**63 - 1
MAX_SENTENCE = 1024
MAX_SUMMARY = 60  # characters of a column that fits into a terminal

# The context under which models forgive: `model_validate(..., context=FORGIVING)`.
FORGIVING: Final = {"forgiving": True}


def _fit_for_a_status(schema: dict[str, Any], model: type["Record"]) -> None:
    for field in schema["properties"].values():
        field.pop("default", None)
    schema.pop("required", None)
    if model.always:
        schema["required"] = sorted(model.always)
    if model.rules:
        schema["x-kubernetes-validations"] = [
            {"rule": rule, "message": message} for rule, message in model.rules
        ]


class Record(ApiModel):
    """What an operator writes and operators of other versions read.

    Made in Python, a wrong value is an error; `parse` takes anything. In both ways texts and lists
    that are too long are cut, so that the API server never refuses them, and sentences are
    scrubbed of secrets.
    """

    model_config = ConfigDict(extra="ignore", json_schema_extra=_fit_for_a_status)
    # Names in YAML of the fields that are written even where they are empty.
    always: ClassVar[frozenset[str]] = frozenset()
    # Rules in the API server's language, each with the sentence for a writer that breaks it.
    rules: ClassVar[tuple[tuple[str, str], ...]] = ()

    @classmethod
    def parse(cls, document: object) -> Self:
        """Read what any version wrote: what cannot be understood counts as not given.

        Raises:
            ValidationError: a field without a default is missing or wrong; a model with a default
                for each field never raises.
        """
        if isinstance(document, cls):
            return document
        given = dict(document) if isinstance(document, Mapping) else {}
        return cls.model_validate(given, context=FORGIVING, by_alias=True, by_name=False)

    def to_json(self) -> dict[str, Any]:
        """Convert it in camelCase, as plain JSON values; what is empty is left out."""
        return self.model_dump(mode="json", by_alias=True)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy it, with other values of some fields; they are checked and cut like all others."""
        if update is None:
            return super().model_copy(deep=deep)
        # Most updates of a pass change nothing, and all fields are checked where one changes.
        if not deep and all(_has(self, name, value) for name, value in update.items()):
            return self
        return type(self)(**{**dict(self), **update})

    @field_validator("*", mode="wrap")
    @classmethod
    def _forgive(
        cls, value: object, handler: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> object:
        try:
            return handler(value)
        except ValidationError:
            field = cls.model_fields[str(info.field_name)]
            if not _is_forgiving(info) or field.is_required():
                raise
            return field.get_default(call_default_factory=True, validated_data=info.data)

    @model_serializer(mode="wrap")
    def _leave_out_empty(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = handler(self)
        for name, field in type(self).model_fields.items():
            if field.alias not in self.always and _is_empty(getattr(self, name)):
                written.pop(name, None)
                written.pop(str(field.alias), None)
        return written


def _has(record: Record, name: str, value: object) -> bool:
    """Return whether a field has that very value: 1 is not 1.0, nor a text an enum's member."""
    former = getattr(record, name, ...)
    return type(former) is type(value) and former == value


def keep_first(longest: int) -> WrapValidator:
    """Bound a list or a map: of too many entries the first ones stay."""
    return WrapValidator(_bounding(slice(longest)))


def keep_last(longest: int) -> WrapValidator:
    """Bound a list or a map: of too many entries the last ones stay."""
    return WrapValidator(_bounding(slice(-longest, None)))


def read_value(enum: type[W], unknown: W | None = None) -> BeforeValidator:
    """Turn text into one of the words; `unknown` stands for a word of another version."""
    known = {member.value: member for member in enum}

    def read(value: object) -> object:
        if not isinstance(value, str):
            return value
        member = known.get(value, unknown)
        if member is None:
            raise ValueError(f"must be one of {', '.join(known)}")
        return member

    return BeforeValidator(read)


def _is_empty(value: object) -> bool:
    """Describe what may be left out; a record without any field was given all the same."""
    return value is None or (isinstance(value, str | tuple | dict) and not value)


def _is_forgiving(info: ValidationInfo) -> bool:
    return info.context is FORGIVING


def _bounding(
    kept: slice,
) -> Callable[[Any, ValidatorFunctionWrapHandler, ValidationInfo], Any]:
    def bound(value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        parts = _split(value)
        if parts is None:
            return handler(value)
        parts = parts[kept]
        if _is_forgiving(info):
            parts = [part for part in parts if _is_valid(part, handler)]
        return handler(_join(parts, isinstance(value, Mapping)))

    return bound


def _split(value: object) -> Sequence[Any] | None:
    """Take a list or a map apart into lists and maps of one entry; None for anything else."""
    if isinstance(value, Mapping):
        return [{name: entry} for name, entry in value.items()]
    return [(entry,) for entry in value] if isinstance(value, list | tuple) else None


def _join(parts: Sequence[Any], is_map: bool) -> object:  # noqa: FBT001 - two shapes, one inside
    if is_map:
        return {name: entry for part in parts for name, entry in part.items()}
    return tuple(entry for part in parts for entry in part)


def _is_valid(part: object, handler: ValidatorFunctionWrapHandler) -> bool:
    try:
        handler(part)
    except ValidationError:
        return False
    return True


# A float holds whole numbers of that size inexactly, so the schema does not repeat the bound. A
# generation; -1 says that no pass has looked at the object yet.
Generation = Annotated[
    int, Field(ge=-1, le=MAX_COUNT), WithJsonSchema({"type": "integer", "minimum": -1})
]
Count = Annotated[int, Field(ge=0, le=MAX_COUNT), WithJsonSchema({"type": "integer", "minimum": 0})]
Number = Annotated[
    int, Field(ge=1, le=MAX_COUNT), WithJsonSchema({"type": "integer", "minimum": 1})
]
Sentence = Annotated[str, Field(max_length=MAX_SENTENCE), BeforeValidator(fitting(MAX_SENTENCE))]
Summary = Annotated[str, Field(max_length=MAX_SUMMARY), BeforeValidator(fitting(MAX_SUMMARY))]
Name = Annotated[str, Field(max_length=253)]
