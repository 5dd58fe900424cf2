"""Computes a pipeline's fingerprint: a digest of everything that determines the output.

The individual parts are kept next to the digest, so that a difference can be explained. Resources,
worker counts, and batch sizes are not included, because they change speed, not output.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic.alias_generators import to_camel

if TYPE_CHECKING:  # saves memory in processes that open ledgers but run no stage
    from strandline.plan.stages.stage import Stage

MISSING = "(none)"
_CODE = ".code"  # follows the stage name in the path of a part
_VERSION = "version "  # prefix of a part's value for an installed package
_CONVERSATION = ".inputs.rollout"
# Matches `my_stages:MinWords` and `team.stages:Text.MinWords`, but not `https://example.com`.
MODULE_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")  # `module:name`


class Fingerprint(NamedTuple):
    """A digest, and the flat `path -> value` parts that it covers.

    Attributes:
        growing: paths of lists that may gain items at the end without invalidating finished
            sources.
        unread: sentences about code and folders that may affect the output but have no part.
    """

    digest: str
    parts: dict[str, Any]
    growing: frozenset[str] = frozenset()
    unread: tuple[str, ...] = ()


def compute_fingerprint(
    stages: Mapping[str, tuple[str, Stage, int | None]], code: Mapping[str, Any] | None = None
) -> Fingerprint:
    """Compute the fingerprint of stages, given as `name -> (use, stage, group)` in pipeline order.

    Args:
        code: digests of the code that the pipeline brings, by path.
    """
    parts: dict[str, Any] = {"order": list(stages), **(code or {})}
    for name, (use, stage, group) in stages.items():
        parts[f"{name}.use"] = use
        parts[f"{name}.version"] = stage.version
        if group is not None:
            parts[f"{name}.group"] = group
        # Omit new parameters with default values: they must not invalidate ledgers of earlier
        # releases.
        left_out = stage.not_fingerprinted | _find_unused(stage)
        values = stage.params.model_dump(mode="json", by_alias=True, exclude=set(left_out))
        parts.update(_flatten(f"{name}.with", values))
        parts.update(
            (f"{name}.inputs.{at}", digest) for at, digest in stage.digest_inputs().items()
        )
    growing = frozenset(
        f"{name}.with.{to_camel(value)}"
        for name, (_, stage, _) in stages.items()
        for value in getattr(stage, "adding", ())  # only source stages have this attribute
    )
    return Fingerprint(_digest(parts), parts, growing)


def add_code(
    fingerprint: Fingerprint, codes: Mapping[str, Mapping[str, str]], unread: Sequence[str]
) -> Fingerprint:
    """Return the fingerprint with the digests of the stages' code added.

    Args:
        codes: digests by file, for each stage name.
        unread: see `Fingerprint`.
    """
    parts = fingerprint.parts | {f"{name}{_CODE}": dict(code) for name, code in codes.items()}
    return fingerprint._replace(digest=_digest(parts), parts=parts, unread=tuple(unread))


def split_code(parts: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the parts of a fingerprint into parts without code digests, and the code digests."""
    code = {path: part for path, part in parts.items() if _is_code(path, parts)}
    return {path: part for path, part in parts.items() if path not in code}, code


def adopt_code(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the old parts, with the new code digests for stages that had no recorded code.

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
    """Return the fingerprint with the old code digests for every stage whose code was not edited.

    A stage may write to a path that a parameter names, such as a log or a cache. A new file at that
    path is not an edit, so the file is left out and later runs do not compare it.

    Args:
        old: parts of the recorded fingerprint.
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
    """Return whether the code of a stage differs, ignoring new files that parameters name."""
    before, after = old[path], new[path]
    named = set(_list_texts(new, f"{path.removesuffix(_CODE)}.with."))
    # A file that a parameter names, such as a cache, may first appear during a run.
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
    """Return the parameters that were added after the first release and have default values."""
    fields = type(stage.params).model_fields
    return frozenset(
        name
        for name in stage.added_params
        if getattr(stage.params, name) == fields[name].get_default(call_default_factory=True)
    )


def describe_difference(
    old: Mapping[str, Any], new: Mapping[str, Any], growing: Collection[str] = ()
) -> list[str]:
    """Return a line for each part that differs, such as `quality.with.minWords: 5 -> 8`.

    An edited file has one line, which names the stages that use the file: `shout, mark: words.py
    has changed`.

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
    """Return the paths of the parts that differ, except lists that only grew at the end."""
    return {
        path
        for path in old.keys() | new.keys()
        # Use a marker for a missing part, because None is a possible value.
        if old.get(path, MISSING) != new.get(path, MISSING)
        and not (path in growing and _has_grown(old.get(path), new.get(path)))
        and not _is_unknown(path, old, new)
    }


def _is_unknown(path: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Return whether a difference in a part must be ignored because the part cannot be compared.

    Earlier releases recorded no code. Assume that the current code wrote their ledgers; otherwise
    the upgrade alone would invalidate them.
    """
    if _is_code(path, old) or _is_code(path, new):
        return path not in old or path not in new or not _is_edited(path, old, new)
    # The conversation part digests the function's source lines, including comments. If the code of
    # the function's module is recorded on both sides, compare only that code.
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
    """Return the first stage of `new` whose output may differ, or None if no output differs.

    Args:
        old, new: parts of fingerprints.
        growing: see `Fingerprint`.
    """
    paths = find_differing(old, new, growing)
    order, before = new.get("order", ()), old.get("order", ())
    # Any stage may use the packages, but only stages that name a module use other brought code.
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
    # No stage names the changed module, but any stage may import the module.
    return str(order[0]) if order and is_code_changed else None


def _names_module(own: str, parts: Mapping[str, Any]) -> bool:
    values = (value for path, value in parts.items() if path.startswith(own))
    return any(isinstance(value, str) and MODULE_NAME.fullmatch(value) for value in values)


def _name_code(file: str, value: str | None) -> str:
    return f"{file} {value}" if value and value.startswith(_VERSION) else file


def _has_grown(old: object, new: object) -> bool:
    """Return whether the only change of a list is new items at the end."""
    return isinstance(old, list) and isinstance(new, list) and new[: len(old)] == old


def _flatten(at: str, value: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - JSON
    # Keep an empty object as a part; otherwise `{}` would equal a missing parameter.
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _flatten(f"{at}.{key}", inner)
    else:
        yield at, value


def _describe_part(parts: Mapping[str, Any], path: str) -> str:
    return json.dumps(parts[path]) if path in parts else MISSING
