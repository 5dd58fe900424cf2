"""Validates JSON answers against a schema, and converts their properties to columns.

The module must not depend on servers or prompts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import pyarrow as pa

from strandline_packs.models.asking.verdicts.contents import find_unclean

_KINDS = {
    "string": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
}
_LEAST, _MOST = -(2**63), 2**63 - 1  # bounds of a 64-bit column
# Suffixes of the columns that the stage adds next to the answer's column.
OWN_COLUMNS = ("finish_reason", "prompt_tokens", "completion_tokens")
_SHOWN = 200


class AnswerSchema:
    """The schema of an answer.

    Args:
        schema: a JSON Schema.
        into: column of the answer, and prefix of the columns for properties.

    Raises:
        ValueError: the schema is invalid or not of an object, or a property's column already
            exists.
    """

    def __init__(self, schema: Mapping[str, Any], into: str) -> None:
        jsonschema = import_module("jsonschema")
        kind = jsonschema.validators.validator_for(schema)
        try:
            kind.check_schema(schema)
        except jsonschema.exceptions.SchemaError as error:
            msg = f"`output.schema` is not a JSON schema: {error.message}"
            raise ValueError(msg) from None
        if schema.get("type") != "object":
            msg = "`output.schema` must describe an object: set `type: object`"
            raise ValueError(msg)
        properties = schema.get("properties") or {}
        taken = sorted(set(OWN_COLUMNS).intersection(properties))
        if taken:
            msg = f"`output.schema` can't have a property {taken[0]!r}: the stage adds that column"
            raise ValueError(msg)
        self._validator = kind(schema)
        self._into = into
        kinds = {name: _find_kind(each) for name, each in properties.items()}
        self._kinds = {name: kind for name, kind in kinds.items() if kind is not None}

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns for the properties."""
        return tuple(f"{self._into}_{name}" for name in self._kinds)

    def find_fault(self, text: str) -> str | None:
        """Return the fault of an answer in one line, or None for a valid answer."""
        try:
            # Python's parser accepts NaN and Infinity, which are not JSON.
            value = json.loads(text, parse_constant=_refuse)
        except ValueError as error:
            return f"it is not JSON ({error})"
        # Escapes such as `\ud800` become surrogates only after parsing.
        unclean = find_unclean(json.dumps(value, ensure_ascii=False))
        if unclean is not None:
            return unclean
        # Sort by path, so that equal answers have equal messages.
        errors = sorted(self._validator.iter_errors(value), key=lambda each: str(each.json_path))
        if errors:
            return f"{errors[0].json_path}: {errors[0].message}"[:_SHOWN]
        for name, kind in self._kinds.items():
            number = value.get(name)
            if pa.types.is_integer(kind) and number is not None and not _LEAST <= number <= _MOST:
                return f"$.{name}: {number} has more than 64 bits"[:_SHOWN]
        return None

    def build_columns(self, texts: Sequence[str]) -> list[tuple[str, pa.Array]]:
        """Return the columns of valid answers."""
        rows = [json.loads(text) for text in texts]
        columns = []
        for name, kind in self._kinds.items():
            values = [_convert(row.get(name), kind) for row in rows]
            columns.append((f"{self._into}_{name}", pa.array(values, kind)))
        return columns


def _find_kind(schema: object) -> pa.DataType | None:
    """Return the type of a property's column, or None if the property has no column."""
    named = schema.get("type") if isinstance(schema, dict) else None
    # `["string", "null"]` gives a column with nulls; several other types fit no column.
    names = [name for name in (named if isinstance(named, list) else [named]) if name != "null"]
    return _KINDS.get(str(names[0])) if len(names) == 1 else None


def _convert(value: Any, kind: pa.DataType) -> Any:  # noqa: ANN401 - JSON of any shape
    if value is None or not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return value
    # JSON Schema accepts 1.0 as an integer and 1 as a number; Arrow does not convert.
    return int(value) if pa.types.is_integer(kind) else float(value)


def _refuse(name: str) -> None:
    msg = f"{name} is not a number"
    raise ValueError(msg)
