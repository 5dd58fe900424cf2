"""Renders transcripts of statuses: the fields that each written status changes. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Body = Mapping[str, Any]
EMPTY = {"0", "0.0", "[]", "{}", "false"}


def render_transcript(statuses: Sequence[Body]) -> str:
    """Render statuses in the order of their writes.

    Each entry begins with a line of time, cause, and kind. New and changed fields follow with their
    values; removed fields follow with a minus. Numbers start at 0, and lists start empty.
    """
    lines: list[str] = []
    last: dict[str, dict[str, str]] = {}
    for status in statuses:
        before, now = last.get(status["kind"], {}), dict(list_fields("", status["status"]))
        lines += ["", f"{status['at']:g} s, after {status['after']}: {status['kind']}"]
        lines += [
            f"  {path}: {value}"
            for path, value in now.items()
            if value != before.get(path) and (path in before or value not in EMPTY)
        ]
        lines += [f"  - {path}" for path in before if path not in now]
        last[status["kind"]] = now
    return "\n".join(lines[1:]) + "\n"


def list_fields(path: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the leaf fields of a value with their paths. A condition counts as one field."""
    if isinstance(value, Mapping) and "lastTransitionTime" in value:
        yield path, f"{value['status']}, {value['reason']}: {value.get('message', '')}"
    elif isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from list_fields(f"{path}.{key}".removeprefix("."), item)
    elif isinstance(value, list) and value:
        for number, item in enumerate(value):
            name = item.get("type", number) if isinstance(item, Mapping) else number
            yield from list_fields(f"{path}.{name}", item)
    else:
        yield path, value if isinstance(value, str) else json.dumps(value)
