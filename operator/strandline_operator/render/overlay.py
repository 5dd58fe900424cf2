"""Laying one manifest over another, as people expect of a pod template. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def lay_over(base: Any, top: Any) -> Any:  # noqa: ANN401 - any part of a manifest
    """A new manifest in which `top` wins.

    Objects are merged field by field. Lists of named entries (containers, volumes, variables) are
    merged by name, in the order of `base`, then of `top`; any other list is replaced.
    """
    if isinstance(base, Mapping) and isinstance(top, Mapping):
        merged = dict(base)
        for name, value in top.items():
            merged[name] = lay_over(base[name], value) if name in base else value
        return merged
    if _is_named(base) and _is_named(top):
        entries = {entry["name"]: entry for entry in base}
        for entry in top:
            name = entry["name"]
            entries[name] = lay_over(entries[name], entry) if name in entries else entry
        return list(entries.values())
    return top


def _is_named(value: object) -> bool:
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(one, Mapping) and "name" in one for one in value)
    )
