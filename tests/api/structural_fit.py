"""Validates a value against a structural schema, for the keywords that the CRDs use."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "array": (list, tuple),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "object": (dict,),
    "string": (str,),
}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def fits(node: Mapping[str, Any], value: Any) -> bool:
    """Return True if the API server would accept the value."""
    if value is None:
        return bool(node.get("nullable"))
    if node.get("x-kubernetes-int-or-string"):
        return _has_type(value, "integer") or (isinstance(value, str) and _fits_text(node, value))
    if not _has_type(value, node["type"]) or value not in node.get("enum", [value]):
        return False
    return _FITS[node["type"]](node, value)


def _has_type(value: object, name: str) -> bool:
    return isinstance(value, _TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def _fits_number(node: Mapping[str, Any], number: float) -> bool:
    return bool(node.get("minimum", number) <= number <= node.get("maximum", number))


def _fits_list(node: Mapping[str, Any], entries: Sequence[Any]) -> bool:
    short_enough = len(entries) <= node.get("maxItems", len(entries))
    return short_enough and all(fits(node["items"], entry) for entry in entries)


def _fits_text(node: Mapping[str, Any], text: str) -> bool:
    least, most = node.get("minLength", 0), node.get("maxLength", len(text))
    if node.get("format") == "date-time" and _TIME.fullmatch(text) is None:
        return False
    return least <= len(text) <= most and re.search(node.get("pattern", ""), text) is not None


def _fits_object(node: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
    properties, other = node.get("properties", {}), node.get("additionalProperties")
    if len(value) > node.get("maxProperties", len(value)):
        return False
    if any(name not in value for name in node.get("required", ())):
        return False
    if node.get("x-kubernetes-preserve-unknown-fields"):
        return True
    if other is not None:
        return all(fits(other, entry) for entry in value.values())
    # Only `metadata` has an empty schema; the API server validates it separately.
    known = [name for name in value if name in properties or not properties]
    return len(known) == len(value) and all(
        fits(properties[name], entry) for name, entry in value.items() if name in properties
    )


_FITS: dict[str, Callable[[Mapping[str, Any], Any], bool]] = {
    "array": _fits_list,
    "boolean": lambda _node, _value: True,
    "integer": _fits_number,
    "number": _fits_number,
    "object": _fits_object,
    "string": _fits_text,
}
