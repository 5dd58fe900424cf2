"""Base class of the records that an operator writes: strict if constructed, lenient if parsed.

An older or newer operator may have written a record, and a reconcile pass must not fail because of
that, so unreadable parts count as missing. The CRD's schema accepts any text for enumerations, so
an operator with a new value works with an older CRD. This module must not depend on any particular
field.
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
MAX_SUMMARY = 60  # width of a table column in a terminal, in characters

# Validation context that makes models lenient: `model_validate(..., context=FORGIVING)`.
FORGIVING: Final = {"forgiving": True}


def _fit_for_a_status(schema: dict[str, Any], model: type["Record"]) -> None:
    for field in schema["properties"].values():
        # The API server would store the default as if an operator had reported that value.
        field.pop("default", None)
    # Operators of other versions may leave out any field that is not in `always`.
    schema.pop("required", None)
    if model.always:
        schema["required"] = sorted(model.always)
    if model.rules:
        schema["x-kubernetes-validations"] = [
            {"rule": rule, "message": message} for rule, message in model.rules
        ]


class Record(ApiModel):
    """A record that an operator writes and operators of other versions read.

    Constructing a record with an invalid value is an error, but `parse` accepts anything. Both
    truncate texts and lists that are too long, so that the API server accepts them, and remove
    secrets from sentences.
    """

    model_config = ConfigDict(extra="ignore", json_schema_extra=_fit_for_a_status)
    # Fields, by YAML name, that are written even if they are empty.
    always: ClassVar[frozenset[str]] = frozenset()
    # CEL rules for the API server, each with an error message.
    rules: ClassVar[tuple[tuple[str, str], ...]] = ()

    @classmethod
    def parse(cls, document: object) -> Self:
        """Read a record of any version. Unreadable parts count as missing.

        Raises:
            ValidationError: if a field without a default is missing or invalid. Models with
                defaults for all fields never raise.
        """
        if isinstance(document, cls):
            return document
        given = dict(document) if isinstance(document, Mapping) else {}
        return cls.model_validate(given, context=FORGIVING, by_alias=True, by_name=False)

    def to_json(self) -> dict[str, Any]:
        """Convert to plain JSON values in camelCase. Leave out empty values."""
        return self.model_dump(mode="json", by_alias=True)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy the record with changed fields, which are validated and truncated as usual."""
        if update is None:
            return super().model_copy(deep=deep)
        # Skip validation if nothing changes, as in most updates during a reconcile pass.
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
                # Depending on the caller, keys are field names or aliases.
                written.pop(name, None)
                written.pop(str(field.alias), None)
        return written


def _has(record: Record, name: str, value: object) -> bool:
    """Return True if a field has this value and the same type. For example, 1 is not 1.0."""
    former = getattr(record, name, ...)
    return type(former) is type(value) and former == value


def keep_first(longest: int) -> WrapValidator:
    """Limit a list or map to its first entries."""
    return WrapValidator(_bounding(slice(longest)))


def keep_last(longest: int) -> WrapValidator:
    """Limit a list or map to its last entries."""
    return WrapValidator(_bounding(slice(-longest, None)))


def read_value(enum: type[W], unknown: W | None = None) -> BeforeValidator:
    """Return a validator that converts text to an enum member. Invalid text becomes `unknown`."""
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
    """Return True if a value may be omitted. A record is never empty, even without fields."""
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
        # Validate entries separately, so that an unreadable entry does not discard the whole list.
        if _is_forgiving(info):
            parts = [part for part in parts if _is_valid(part, handler)]
        return handler(_join(parts, isinstance(value, Mapping)))

    return bound


def _split(value: object) -> Sequence[Any] | None:
    """Split a list or map into lists or maps with one entry each. Return None for other values."""
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


# A schema bound would be a float, which can't represent whole numbers of this size exactly, so the
# schema omits the bound. A generation of -1 means that no reconcile pass has seen the object yet.
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
