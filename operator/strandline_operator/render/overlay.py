"""Laying one manifest over another, as people expect of a pod template. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Mounts have a name too, that of the volume, and several may share one.
_KEYS = ("mountPath", "containerPort", "name")
# Of these an entry has one: a variable's value, or where that comes from.
_EITHER = frozenset({"value", "valueFrom"})


def lay_over(base: Any, top: Any) -> Any:  # noqa: ANN401 - any part of a manifest
    """A new manifest in which `top` wins.

    Objects are merged field by field. Lists of entries with a key (mounts by path, ports by number,
    containers, volumes and variables by name) are merged by it, in the order of `base`, then of
    `top`; any other list is replaced.
    """
    if isinstance(base, Mapping) and isinstance(top, Mapping):
        merged = dict(base)
        for name, value in top.items():
            merged[name] = lay_over(base[name], value) if name in base else value
        return merged
    key = next((key for key in _KEYS if _has_key(base, key) and _has_key(top, key)), None)
    if key is None:
        return top
    entries = {entry[key]: entry for entry in base}
    for entry in top:
        known = entries.get(entry[key])
        if known is not None and _EITHER & entry.keys():
            known = {name: value for name, value in known.items() if name not in _EITHER}
        entries[entry[key]] = entry if known is None else lay_over(known, entry)
    return list(entries.values())


def _has_key(value: object, key: str) -> bool:
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(one, Mapping) and key in one for one in value)
    )
