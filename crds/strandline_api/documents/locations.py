"""Converts a location inside a pydantic model to the path in the user's file.

Pydantic's locations include union branches and validators, which mean nothing to a user. This
module follows the location through the model and leaves those parts out. It must not depend on the
text of error messages.
"""

import re
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeGuard, Union, get_args, get_origin

from pydantic import BaseModel, JsonValue
from pydantic.fields import FieldInfo

# Pydantic's `JsonValue` is an alias that cannot be inspected at run time.
_JSON_TYPES = (list[JsonValue], dict[str, JsonValue], str, bool, int, float)
# Matches `minWords` and `min-words`. Other keys, like `a.b`, are quoted.
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class SchemaLocation:
    """A path in a document, and the types that the model allows there."""

    path: str
    types: tuple[Any, ...] = field(default=())

    def enter(self, part: int | str) -> "SchemaLocation":
        """Follow one step of a pydantic location. Keep the path if the step only selects a type."""
        # Pydantic adds this segment after the name of an invalid key.
        if part == "[key]":
            return self
        # In a union, pydantic inserts the selected branch before the next field.
        if len(self.types) > 1:
            return SchemaLocation(self.path, _picked(self.types, str(part)))
        # Below a free-form object, no type is known. Still extend the path.
        inner = self.types[0] if self.types else None
        return SchemaLocation(joined(self.path, part), _alternatives(_inside(inner, part)))

    @property
    def fields(self) -> tuple[str, ...]:
        """The field names allowed at this path, or empty if any name is allowed."""
        return tuple(name for type_ in self.types for name in field_names(type_))


def find_location(model: type[BaseModel], at: str, location: Sequence[int | str]) -> SchemaLocation:
    """Return the location in a document, given a model at the path `at` and a pydantic location."""
    found = SchemaLocation(at, (model,))
    for part in location:
        found = found.enter(part)
    return found


def joined(path: str, part: int | str) -> str:
    """Append a list index or a field name to a path: `spec.stages[2].with`."""
    if isinstance(part, int):
        return f"{path}[{part}]"
    if _PLAIN_KEY.fullmatch(part) is None:
        return f'{path}["{part}"]'
    return f"{path}.{part}" if path else part


def field_names(type_: object) -> tuple[str, ...]:
    """Return a model's field names in the user's notation, or empty for any other type."""
    if not _is_model(type_):
        return ()
    return tuple(_find_alias(name, info) for name, info in type_.model_fields.items())


def _is_model(type_: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(type_, type) and issubclass(type_, BaseModel)


def _find_alias(name: str, info: FieldInfo) -> str:
    alias = info.validation_alias
    return alias if isinstance(alias, str) else info.alias or name


def _inside(type_: Any, part: int | str) -> Any:
    if _is_model(type_):
        fields = type_.model_fields.items()
        return next(
            (i.annotation for name, i in fields if part in (name, _find_alias(name, i))), None
        )
    origin, arguments = get_origin(type_), get_args(type_)
    if not isinstance(origin, type) or not arguments:
        return None
    if issubclass(origin, Mapping):
        return arguments[1]
    # `tuple[int, str]` has a type for each position; `tuple[int, ...]` has the same type for all
    # positions.
    if issubclass(origin, tuple) and arguments[-1] is not ... and isinstance(part, int):
        return arguments[part] if part < len(arguments) else None
    return arguments[0]


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    """Return the types in a union, without None and without `Annotated` metadata."""
    if annotation is JsonValue:
        return _JSON_TYPES
    origin = get_origin(annotation)
    if origin is Annotated:
        return _alternatives(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        members = (member for member in get_args(annotation) if member is not types.NoneType)
        return tuple(found for member in members for found in _alternatives(member))
    return () if annotation is None else (annotation,)


def _picked(candidates: tuple[Any, ...], tag: str) -> tuple[Any, ...]:
    named = [type_ for type_ in candidates if _names(type_, tag)]
    return tuple(named[:1]) or candidates[:1]


def _names(type_: Any, tag: str) -> bool:
    name = getattr(type_, "__name__", str(type_))
    # Pydantic writes a generic branch with its type arguments, as in `list[str]`.
    return tag in (name, str(type_)) or tag.startswith(f"{name}[") or _is_tagged(type_, tag)


def _is_tagged(type_: Any, tag: str) -> bool:
    """Return True if a field of the model accepts only this tag, as in a discriminated union."""
    if not _is_model(type_):
        return False
    literals = (info.annotation for info in type_.model_fields.values())
    return any(tag in map(str, get_args(literal)) for literal in literals)
