"""Flattens a CRD into paths as clients use it, and finds the changes that break clients."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from strandline_api.schema.openapi import nodes

Entry = Mapping[str, Any]
Snapshot = dict[str, Entry]

# Keywords that contain other nodes or descriptions. They are not compared as values.
_APART = frozenset(
    {"additionalProperties", "anyOf", "description", "items", "properties", "required"}
)
_SHRINKING = ("maximum", "maxItems", "maxLength", "maxProperties")
_GROWING = ("minimum", "minItems", "minLength")
_FIXED = (
    "type",
    "format",
    "pattern",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-preserve-unknown-fields",
)


def flatten(definition: Mapping[str, Any]) -> Snapshot:
    """Return every path of a CRD, and the names and selectors that clients use."""
    names, version = definition["spec"]["names"], definition["spec"]["versions"][0]
    kind = f"{version['name']} {names['kind']}"
    known = dict(nodes(version["schema"]["openAPIV3Schema"]))
    found = {f"{kind}: {path}": _entry(path, known) for path in known}
    used = [names["plural"], *names["shortNames"], *names["categories"]]
    used += [f"--field-selector {field['jsonPath']}" for field in version["selectableFields"]]
    return found | {f"{kind} as {word}": {} for word in used}


def find_breaks(old: Snapshot, new: Snapshot) -> list[str]:
    """Return a sentence for each change that breaks clients of the old CRD."""
    gone = [f"{path} is gone" for path in old if path not in new]
    changed = [
        f"{path} {what}" for path in old if path in new for what in _compare(old[path], new[path])
    ]
    added = [
        f"{path} is new and required"
        for path, entry in new.items()
        if path not in old and entry.get("required") and path.rpartition(".")[0] in old
    ]
    return gone + changed + added


def spell(snapshot: Snapshot) -> str:
    """Format a snapshot with one line per path."""
    lines = [f"{json.dumps(path)}: {json.dumps(entry)}" for path, entry in snapshot.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _entry(path: str, known: Mapping[str, Entry]) -> Entry:
    node = known[path]
    kept = {key: node[key] for key in sorted(node) if key not in _APART}
    if "x-kubernetes-validations" in kept:
        rules = node["x-kubernetes-validations"]
        kept["x-kubernetes-validations"] = [rule["rule"] for rule in rules]
    parent, _, name = path.rpartition(".")
    is_required = bool(path) and name in known[parent].get("required", ())
    return kept | {"required": True} if is_required else kept


def _compare(old: Entry, new: Entry) -> Iterator[str]:
    for key in _FIXED:
        if old.get(key) != new.get(key):
            yield f"has another {key}: {new.get(key)}, not {old.get(key)}"
    if new.get("required") and not old.get("required"):
        yield "is required"
    if old.get("nullable") and not new.get("nullable"):
        yield "may no longer be null"
    if "default" in old and old["default"] != new.get("default"):
        yield f"has another default: {new.get('default')}, not {old['default']}"
    yield from _compare_bounds(old, new)
    yield from _compare_words(old, new)


def _compare_bounds(old: Entry, new: Entry) -> Iterator[str]:
    for keys, sign in ((_SHRINKING, 1), (_GROWING, -1)):
        for key in keys:
            if key in new and (key not in old or sign * new[key] < sign * old[key]):
                yield f"has a narrower {key}: {new[key]}, not {old.get(key)}"


def _compare_words(old: Entry, new: Entry) -> Iterator[str]:
    if "enum" in new:
        lost = [word for word in old.get("enum", ["anything"]) if word not in new["enum"]]
        yield from (f"no longer takes {word}" for word in lost)
    rules = set(new.get("x-kubernetes-validations", ())) - set(
        old.get("x-kubernetes-validations", ())
    )
    yield from (f"is held to a new rule: {rule}" for rule in sorted(rules))
