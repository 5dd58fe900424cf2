"""What decides a pipeline's output, as one digest and as the parts that explain a difference.

Resources, worker counts and batch sizes are not in it: they change speed, not output.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

from strandline.plan.stage import Stage

MISSING = "(none)"


class Fingerprint(NamedTuple):
    """A digest and the flat `path -> value` parts it was made of."""

    digest: str
    parts: dict[str, Any]


def compute_fingerprint(
    stages: Mapping[str, tuple[str, Stage, int | None]], code: Mapping[str, Any] | None = None
) -> Fingerprint:
    """The fingerprint of `name -> (use, stage, group)` in pipeline order.

    Args:
        code: what of the code that was brought decides the output, by path.
    """
    parts: dict[str, Any] = {"order": list(stages), **(code or {})}
    for name, (use, stage, group) in stages.items():
        parts[f"{name}.use"] = use
        parts[f"{name}.version"] = stage.version
        if group is not None:
            parts[f"{name}.group"] = group
        values = stage.params.model_dump(
            mode="json", by_alias=True, exclude=set(stage.not_fingerprinted)
        )
        parts.update(_flatten(f"{name}.with", values))
        parts.update(
            (f"{name}.inputs.{at}", digest) for at, digest in stage.digest_inputs().items()
        )
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return Fingerprint(blake2b(text.encode(), digest_size=16).hexdigest(), parts)


def describe_difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """One line for each part that differs: `quality.with.minWords: 5 -> 8`."""
    return [
        f"{path}: {_spell(old, path)} -> {_spell(new, path)}"
        for path in sorted(old.keys() | new.keys())
        if old.get(path, MISSING) != new.get(path, MISSING)
    ]


def _flatten(at: str, value: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - JSON
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _flatten(f"{at}.{key}", inner)
    else:
        yield at, value


def _spell(parts: Mapping[str, Any], path: str) -> str:
    return json.dumps(parts[path]) if path in parts else MISSING
