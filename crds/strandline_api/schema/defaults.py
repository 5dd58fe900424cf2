"""Inserts defaults into a schema, and decides which defaults the API server stores.

The API server writes the schema's defaults into objects. GitOps tools compare whole lists, so a
default inside a list would look like a permanent edit. Therefore, the program fills in defaults
inside lists when it reads the object. This module must not depend on any particular field.
"""

from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]


def insert_defaults(schema: Mapping[str, Any]) -> Schema:
    """Copy a structural schema, describe all defaults, and drop the defaults inside lists.

    Descriptions name the defaults, because `kubectl explain` does not show them. Optional objects
    with inner defaults get an empty object as a default; otherwise the API server would not fill in
    the inner defaults.
    """
    return _insert(schema, is_listed=False)


def _insert(node: Mapping[str, Any], *, is_listed: bool) -> Schema:
    result = dict(node)
    if "items" in node:
        result["items"] = _insert(node["items"], is_listed=True)
    if "properties" in node:
        result["properties"] = {
            name: _field(child, is_listed=is_listed, is_required=name in node.get("required", ()))
            for name, child in node["properties"].items()
        }
    return result


def _field(child: Mapping[str, Any], *, is_listed: bool, is_required: bool) -> Schema:
    field = _insert(child, is_listed=is_listed)
    if "default" in field:
        field["description"] = _describe(field["description"], field["default"])
    if is_listed:
        field.pop("default", None)
    elif not is_required and _has_defaults(field):
        field["default"] = {}
    return field


def _has_defaults(node: Schema) -> bool:
    return any("default" in child for child in node.get("properties", {}).values())


def _describe(description: str, default: object) -> str:
    if default in ({}, []) or "Defaults to" in description:
        return description
    # YAML writes `true`, Python `True`.
    shown = str(default).lower() if isinstance(default, bool) else default
    return f"{description} Defaults to {shown}."
