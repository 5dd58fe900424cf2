"""Converts a pydantic model to the structural schema that a CustomResourceDefinition needs.

The API server accepts a small dialect of JSON Schema and drops or rejects all other keys. A key
outside of the lists below is an error here, before the CRD is installed. This module must not
depend on any particular model.
"""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from pydantic import BaseModel

from strandline_api.schema.defaults import Schema

ALLOWED_KEYS = frozenset(
    {
        "additionalProperties",
        "anyOf",
        "default",
        "description",
        "enum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minimum",
        "nullable",
        "pattern",
        "properties",
        "required",
        "type",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    }
)
_INT_OR_STRING = "x-kubernetes-int-or-string"
_FREE = "x-kubernetes-preserve-unknown-fields"
_REFERENCE = "#/$defs/"


class UnstructuralError(ValueError):
    """Raised if a model has no structural schema."""


def structural_schema(model: type[BaseModel]) -> Schema:
    """Convert a model to a structural schema.

    References are inlined, null branches and titles are dropped, and constants become enums with
    one value.

    Args:
        model: any model that marks its free-form objects; it must not contain itself.

    Returns:
        A new dictionary of plain values. No two nodes share an object.

    Raises:
        UnstructuralError: if a key or a union has no structural form. The message contains the
            path.
    """
    raw = model.model_json_schema(by_alias=True, mode="validation")
    return _converted(raw, raw.get("$defs", {}), model.__name__)


def nodes(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each node of a schema with a path like `spec.stages[].use`, parents first."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}" if path else name)
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from nodes(schema["additionalProperties"], f"{path}{{}}")


def _converted(raw: Schema, definitions: Schema, path: str) -> Schema:
    node = _without_null(_resolved(raw, definitions, path), definitions, path)
    node = _plain(node)
    _refuse_unknown_keys(node, path)
    for name, child in node.get("properties", {}).items():
        node["properties"][name] = _converted(child, definitions, f"{path}.{name}")
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if key in node:
            node[key] = _converted(node[key], definitions, f"{path}{mark}")
    if "type" not in node and _INT_OR_STRING not in node and _FREE not in node:
        raise UnstructuralError(f"{path}: no type")
    return node


def _resolved(raw: Schema, definitions: Schema, path: str, depth: int = 0) -> Schema:
    """Replace a reference with its target. Keys next to the reference take precedence."""
    if "$ref" not in raw:
        return dict(raw)
    # A chain of references without a cycle visits each model at most once.
    if depth > len(definitions) or path.count(".") > len(definitions) + 1:
        raise UnstructuralError(f"{path}: contains itself")
    beside = {key: value for key, value in raw.items() if key != "$ref"}
    # Copy the target: conversion changes nodes in place, and other fields may reference the same
    # target.
    target = deepcopy(definitions[raw["$ref"].removeprefix(_REFERENCE)])
    return _resolved(target, definitions, path, depth + 1) | beside


def _without_null(node: Schema, definitions: Schema, path: str) -> Schema:
    """Convert "X or null" to X: a null in a manifest means that the field is absent."""
    if "anyOf" not in node or _INT_OR_STRING in node:
        return node
    branches = [branch for branch in node["anyOf"] if branch.get("type") != "null"]
    if len(branches) != 1:
        raise UnstructuralError(f"{path}: a union of {len(branches)} types")
    beside = {key: value for key, value in node.items() if key != "anyOf"}
    return _resolved(branches[0], definitions, path) | beside


def _plain(node: Schema) -> Schema:
    """Drop keys that the API server does not accept, and convert the others to its dialect."""
    kept = {key: value for key, value in node.items() if key not in ("title", "$defs")}
    # The API server drops unknown fields even if this key is absent, and rejects the key next to
    # `properties`.
    if kept.get("additionalProperties") is False:
        del kept["additionalProperties"]
    if "const" in kept:
        kept["enum"] = [kept.pop("const")]
    if "default" in kept and kept["default"] is None:
        del kept["default"]
    return {key: _without_point(value) for key, value in kept.items()}


def _without_point(value: Any) -> Any:
    """Write 1 for 1.0: the two differ in Python's output, but not in JSON's meaning."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _refuse_unknown_keys(node: Schema, path: str) -> None:
    unknown = sorted(node.keys() - ALLOWED_KEYS)
    if unknown:
        raise UnstructuralError(f"{path}: a structural schema has no {', '.join(unknown)}")
    if node.get("additionalProperties") is True:
        raise UnstructuralError(f"{path}: a free-form object must be marked as such")
