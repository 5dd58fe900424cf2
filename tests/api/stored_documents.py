"""Transforms pipelines as an API server stores them, including unknown fields."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

Document = dict[str, Any]
Schema = Mapping[str, Any]
# Fields that a later release could add: a switch with a default, and an object with a field.
TOMORROW: Document = {"tomorrow": {"colour": "blue"}, "later": False}


def schema_of(definition: Schema) -> dict[str, Any]:
    """Return the schema of a CRD's only version."""
    return dict(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


def store(document: Document, definition: Schema) -> Document:
    """Return the document with every default that the API server stores."""
    stored: Document = _fill(copy.deepcopy(document), schema_of(definition))
    return stored


def _fill(value: Any, node: Schema) -> Any:
    if isinstance(value, list):
        return [_fill(one, node.get("items", {})) for one in value]
    if not isinstance(value, dict):
        return value
    for name, child in node.get("properties", {}).items():
        if name not in value and "default" in child:
            value[name] = copy.deepcopy(child["default"])
        if name in value:
            value[name] = _fill(value[name], child)
    return value


def prune(value: Any, node: Schema) -> Any:
    """Remove the fields that the schema lacks, as the API server does."""
    if isinstance(value, list):
        return [prune(one, node.get("items", {})) for one in value]
    if not isinstance(value, dict) or "properties" not in node:
        return copy.deepcopy(value)
    known = node["properties"]
    if node.get("x-kubernetes-preserve-unknown-fields"):
        return copy.deepcopy(value)
    return {name: prune(one, known[name]) for name, one in value.items() if name in known}


def plant_unknown(document: Document, definition: Schema) -> tuple[Document, set[str]]:
    """Add fields of a later release to each object of the document's spec, except free-form ones.

    Returns:
        The document, and the paths of the added fields.
    """
    grown = copy.deepcopy(document)
    found = list(_list_objects(grown["spec"], schema_of(definition)["properties"]["spec"], "spec"))
    for _, node in found:
        node.update(copy.deepcopy(TOMORROW))
    return grown, {f"{path}.{name}" for path, _ in found for name in TOMORROW}


def _list_objects(value: Any, node: Schema, path: str) -> Iterator[tuple[str, Document]]:
    if isinstance(value, list):
        for index, one in enumerate(value):
            yield from _list_objects(one, node.get("items", {}), f"{path}[{index}]")
    elif isinstance(value, dict) and "properties" in node:
        if not node.get("x-kubernetes-preserve-unknown-fields"):
            yield path, value
        for name, child in node["properties"].items():
            if name in value:
                yield from _list_objects(value[name], child, f"{path}.{name}")
