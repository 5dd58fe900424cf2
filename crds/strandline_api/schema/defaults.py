"""Where defaults stand in a schema, and where they are only told.

The API server writes a default into what is stored. Tools that keep objects as a repository says
compare lists as a whole, so a default inside of one would look to them like an edit that never
goes away; there the program fills it in when it reads. This room must not know any field.
"""

from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]


def insert_defaults(schema: Mapping[str, Any]) -> Schema:
    """Copy a structural schema with all defaults told, and stored where that does no harm.

    Each description names its field's default, since `kubectl explain` does not. Optional objects
    that have defaults inside get an empty one, without which those would not be filled in.
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
    shown = str(default).lower() if isinstance(default, bool) else default
    return f"{description} Defaults to {shown}."
