"""Which changes of public names break code that was written against older ones.

What becomes of a definition's fields is looked at by `compatibility`; here it is names, parameters
and types.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from public_names import BOUNDS, LIMITS, PublicName

Snapshot = dict[str, Mapping[str, Any]]


def flatten(names: Iterable[PublicName]) -> Snapshot:
    """Every public name with its kind and what code relies on."""
    return {name.path: {"kind": name.kind, **name.entry} for name in names}


def format_snapshot(snapshot: Snapshot) -> str:
    """One line for each name."""
    lines = [f"{json.dumps(path)}: {json.dumps(entry)}" for path, entry in snapshot.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def find_breaks(old: Snapshot, new: Snapshot) -> list[str]:
    """Say what would break code that was written against the old one; empty if nothing."""
    lost = old.keys() - new.keys()
    gone = [f"{path} is gone" for path in old if path in lost and _owner_of(path) not in lost]
    changed = [
        f"{path} {what}" for path in old if path in new for what in _compare(old[path], new[path])
    ]
    added = [
        f"{path} {what}" for path in new if path not in old for what in _judge_new(path, old, new)
    ]
    return gone + changed + added


def _owner_of(path: str) -> str:
    """The class or function that a name belongs to; the module of one that stands by itself."""
    return path.rpartition("(" if path.endswith(")") else ".")[0]


def _judge_new(path: str, old: Snapshot, new: Snapshot) -> Iterator[str]:
    """A new name breaks something where it is asked of those who called or subclassed before."""
    entry = new[path]
    if _owner_of(path) not in old:
        return
    if entry["kind"] == "parameter" and "default" not in entry and "(*" not in path:
        yield "is new and required"
    if entry.get("abstract"):
        yield "is new, and subclasses have to write it"


def _compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    if old["kind"] != new["kind"]:
        yield f"is another kind of thing: {new['kind']}, not {old['kind']}"
    yield from (f"is no {base} any more" for base in old.get("is", ()) if base not in new["is"])
    if new.get("abstract") and not old.get("abstract"):
        yield "has to be written by subclasses"
    if old.get("at", new.get("at")) != new.get("at"):
        yield f"is given at another place: {new.get('at')}, not {old['at']}"
    if "default" in old and "default" not in new:
        yield "has no default any more"
    elif "default" in old and old["default"] != new["default"]:
        yield f"has another default: {new['default']}, not {old['default']}"
    if "pattern" in new and old.get("pattern") != new["pattern"]:
        yield f"has to match another pattern: {new['pattern']}"
    yield from _compare_types(old, new)
    yield from _compare_bounds(old, new)


def _compare_types(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """What is taken may grow, what is given may shrink."""
    taken, given = new.get("takes", []), new.get("gives", [])
    if "Any" not in taken:
        yield from (f"no longer takes {kind}" for kind in old.get("takes", ()) if kind not in taken)
    if "gives" in old and "Any" not in old["gives"]:
        yield from (f"may be {kind} now" for kind in given if kind not in old["gives"])


def _compare_bounds(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for keys, sign in ((LIMITS, 1), (BOUNDS, -1)):
        for key in keys:
            if key in new and (key not in old or sign * new[key] < sign * old[key]):
                yield f"has a narrower {key}: {new[key]}, not {old.get(key)}"
