"""Fingerprint of a pipeline: everything that determines its output, as a digest and as parts.

The parts explain a difference. Resources, worker counts, and batch sizes are not included, because
they change speed, not output.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic.alias_generators import to_camel

if TYPE_CHECKING:  # a process that opens ledgers and runs no stage stays small
    from strandline.plan.stages.stage import Stage

MISSING = "(none)"
_CODE = ".code"  # suffix of a path, after the name of a stage
_VERSION = "version "  # prefix of the value for an installed package
_CONVERSATION = ".inputs.rollout"
# Matches `my_stages:MinWords` and `team.stages:Text.MinWords`, but not `https://example.com`.
MODULE_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")  # `module:name`


class Fingerprint(NamedTuple):
    """A digest, and the flat `path -> value` parts that it covers.

    Attributes:
        growing: paths of lists that may grow at their end without invalidating finished sources.
        unread: sentences about code and folders that may affect the output but have no part.
    """

    digest: str
    parts: dict[str, Any]
    growing: frozenset[str] = frozenset()
    unread: tuple[str, ...] = ()


def compute_fingerprint(
    stages: Mapping[str, tuple[str, Stage, int | None]], code: Mapping[str, Any] | None = None
) -> Fingerprint:
    """Compute the fingerprint of `name -> (use, stage, group)` in pipeline order.

    Args:
        code: parts of the code that the pipeline brings, by path.
    """
    parts: dict[str, Any] = {"order": list(stages), **(code or {})}
    for name, (use, stage, group) in stages.items():
        parts[f"{name}.use"] = use
        parts[f"{name}.version"] = stage.version
        if group is not None:
            parts[f"{name}.group"] = group
        # A new parameter with the default value must not invalidate ledgers of earlier releases.
        left_out = stage.not_fingerprinted | _find_unused(stage)
        values = stage.params.model_dump(mode="json", by_alias=True, exclude=set(left_out))
        parts.update(_flatten(f"{name}.with", values))
        parts.update(
            (f"{name}.inputs.{at}", digest) for at, digest in stage.digest_inputs().items()
        )
    growing = frozenset(
        f"{name}.with.{to_camel(value)}"
        for name, (_, stage, _) in stages.items()
        for value in getattr(stage, "adding", ())  # sources only
    )
    return Fingerprint(_digest(parts), parts, growing)


def add_code(
    fingerprint: Fingerprint, codes: Mapping[str, Mapping[str, str]], unread: Sequence[str]
) -> Fingerprint:
    """Return a fingerprint with the code of stages.

    Args:
        codes: digests by file, by the name of the stage.
        unread: see `Fingerprint`.
    """
    parts = fingerprint.parts | {f"{name}{_CODE}": dict(code) for name, code in codes.items()}
    return fingerprint._replace(digest=_digest(parts), parts=parts, unread=tuple(unread))


def split_code(parts: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parts of a fingerprint without the digests of code, and those digests."""
    code = {path: part for path, part in parts.items() if _is_code(path, parts)}
    return {path: part for path, part in parts.items() if path not in code}, code


def adopt_code(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return old parts with the code of new parts, for stages without recorded code.

    Args:
        old, new: parts of fingerprints.
    """
    codes = {
        path: part
        for path, part in new.items()
        if _is_code(path, old) and not _has_other_conversation(path.removesuffix(_CODE), old, new)
    }
    # Recorded code wins; only stages without recorded code adopt the current code.
    return codes | dict(old)


def keep_code(old: Mapping[str, Any], fingerprint: Fingerprint) -> Fingerprint:
    """Return a fingerprint without files that did not exist when the old parts were recorded.

    A stage may write to a path that a parameter names, such as a log or a cache. A new file at that
    path is no edit, so later runs do not compare it.

    Args:
        old: parts of a fingerprint.
    """
    kept = {
        path: old[path]
        for path in fingerprint.parts
        if _is_code(path, fingerprint.parts)
        and path in old
        and not _is_edited(path, old, fingerprint.parts)
    }
    return fingerprint._replace(parts=fingerprint.parts | kept)


def _is_edited(path: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Return whether the code of a stage differs; files of parameters may appear."""
    before, after = old[path], new[path]
    named = set(_list_texts(new, f"{path.removesuffix(_CODE)}.with."))
    # A file that a parameter names, like a cache, may appear during the first run.
    files = before.keys() | {file for file in after if file not in named}
    return any(before.get(file) != after.get(file) for file in files)


def _list_texts(parts: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for path, value in parts.items():
        if path.startswith(prefix):
            yield from (
                each
                for each in [value, *(value if isinstance(value, list) else [])]
                if isinstance(each, str)
            )


def _has_other_conversation(stage: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    return bool(old.get(stage + _CONVERSATION) != new.get(stage + _CONVERSATION))


def _digest(parts: Mapping[str, Any]) -> str:
    # The order of parameters in a file must not change the digest.
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _find_unused(stage: Stage) -> frozenset[str]:
    """Return the parameters of later releases that have default values."""
    fields = type(stage.params).model_fields
    return frozenset(
        name
        for name in stage.added_params
        if getattr(stage.params, name) == fields[name].get_default(call_default_factory=True)
    )


def describe_difference(
    old: Mapping[str, Any], new: Mapping[str, Any], growing: Collection[str] = ()
) -> list[str]:
    """Describe one line for each part that differs: `quality.with.minWords: 5 -> 8`.

    An edited file has one line, with the stages that use it: `shout, mark: words.py has changed`.

    Args:
        growing: see `Fingerprint`.
    """
    paths = sorted(find_differing(old, new, growing))
    users: dict[str, list[str]] = {}
    for path in paths:
        if _is_code(path, new):
            for sentence in _describe_code(old[path], new[path]):
                users.setdefault(sentence, []).append(path.removesuffix(_CODE))
    return [
        f"{path}: {_describe_part(old, path)} -> {_describe_part(new, path)}"
        for path in paths
        if not _is_code(path, new)
    ] + [f"{', '.join(stages)}: {sentence}" for sentence, stages in users.items()]


def find_differing(
    old: Mapping[str, Any], new: Mapping[str, Any], growing: Collection[str] = ()
) -> set[str]:
    """Return the paths of parts that differ; see `describe_difference`."""
    return {
        path
        for path in old.keys() | new.keys()
        # Null is a possible value, so a marker stands for a missing part.
        if old.get(path, MISSING) != new.get(path, MISSING)
        and not (path in growing and _has_grown(old.get(path), new.get(path)))
        and not _is_unknown(path, old, new)
    }


def _is_unknown(path: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Return whether a part cannot be compared.

    Earlier releases recorded no code. Their ledgers count as written by the current code; otherwise
    the upgrade alone would invalidate them.
    """
    if _is_code(path, old) or _is_code(path, new):
        return path not in old or path not in new or not _is_edited(path, old, new)
    # This part holds the function's lines with comments. The code of its module covers it.
    code = path.removesuffix(_CONVERSATION) + _CODE
    return path.endswith(_CONVERSATION) and code in old and code in new


def _is_code(path: str, parts: Mapping[str, Any]) -> bool:
    return path.endswith(_CODE) and path.removesuffix(_CODE) in parts.get("order", ())


def _describe_code(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    for file in sorted(old.keys() | new.keys()):
        before, after = old.get(file), new.get(file)
        if before is None:
            yield f"{_name_code(file, after)} is new"
        elif after is None:
            yield f"{_name_code(file, before)} is no longer used"
        elif before != after and before.startswith(_VERSION) and after.startswith(_VERSION):
            yield f"{file} {before} -> {after.removeprefix(_VERSION)}"
        elif before != after:
            yield f"{file} has changed"


def find_first_change(
    old: Mapping[str, Any], new: Mapping[str, Any], growing: Collection[str] = ()
) -> str | None:
    """Return the first stage of `new` whose output may differ, or None for equal outputs.

    Args:
        old, new: parts of fingerprints.
        growing: see `Fingerprint`.
    """
    paths = find_differing(old, new, growing)
    order, before = new.get("order", ()), old.get("order", ())
    # Every stage may use the packages; only stages that name a module use the brought code.
    if "code.packages" in paths and order:
        return str(order[0])
    is_code_changed = any(path.startswith("code.") for path in paths)
    for at, name in enumerate(order):
        own = f"{name}."
        # An added, removed, or renamed stage changes the input of all later stages.
        if at >= len(before) or before[at] != name or any(path.startswith(own) for path in paths):
            return str(name)
        if is_code_changed and _names_module(own, new):
            return str(name)
    # A module that no stage names may still be loaded by a stage.
    return str(order[0]) if order and is_code_changed else None


def _names_module(own: str, parts: Mapping[str, Any]) -> bool:
    values = (value for path, value in parts.items() if path.startswith(own))
    return any(isinstance(value, str) and MODULE_NAME.fullmatch(value) for value in values)


def _name_code(file: str, value: str | None) -> str:
    return f"{file} {value}" if value and value.startswith(_VERSION) else file


def _has_grown(old: object, new: object) -> bool:
    """Return whether a list has only gained items at its end."""
    return isinstance(old, list) and isinstance(new, list) and new[: len(old)] == old


def _flatten(at: str, value: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - JSON
    # An empty object is a part as well; otherwise `{}` would equal a missing parameter.
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _flatten(f"{at}.{key}", inner)
    else:
        yield at, value


def _describe_part(parts: Mapping[str, Any], path: str) -> str:
    return json.dumps(parts[path]) if path in parts else MISSING
