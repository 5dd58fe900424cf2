"""Positions in a manifest: `FILE#NAME`, dotted paths, and the line of each problem.

The module must not depend on the meaning of any field.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import yaml

from strandline_api.documents.problems import Problem, SpecError
from strandline_api.names import STORED_ANNOTATION

NAME_MARK = "#"
_TOP = ("apiVersion", "kind", "metadata", "spec")
# Matches `[0]`, `["a.b"]`, and `.name`.
_PART = re.compile(r"""\[(\d+)\]|\["([^"]+)"\]|\.?([^.\[\]]+)""")


def split_name(path: Path) -> tuple[Path, str]:
    """Split `FILE#NAME` into file and name. The path of an existing file is not split."""
    file, mark, name = str(path).rpartition(NAME_MARK)
    return (Path(file), name) if mark and file and not path.exists() else (path, "")


def split_path(path: str) -> list[str]:
    """Return the parts of a path, or an empty list if the path is malformed."""
    parts: list[str] = []
    at = 0
    while at < len(path):
        found = _PART.match(path, at)
        if found is None or (at == 0 and path.startswith(".")):
            return []
        parts.append(next(group for group in found.groups() if group is not None))
        at = found.end()
    return parts


def split_from_top(path: str) -> list[str]:
    """Return the parts of a path from the top. Add `spec`, which a setting may omit."""
    parts = split_path(path.strip())
    return ["spec", *parts] if parts and parts[0] not in _TOP else parts


@contextmanager
def locating(path: Path, settings: Sequence[str] = ()) -> Iterator[None]:
    """Add the line of a manifest to every problem of a `SpecError` that the block raises.

    Args:
        path: the file, or `FILE#NAME`.
        settings: settings of the form `dotted.path=value`. Problems of these paths get no line,
            because their values are not from the file.
    """
    try:
        yield
    except SpecError as error:
        file, name = split_name(path)
        document = _compose(file, name)
        if document is None:
            raise
        changed = [split_from_top(setting.partition("=")[0]) for setting in settings]
        problems = tuple(_locate(each, file, document, changed) for each in error.problems)
        raise SpecError(problems) from error


def find_line(document: yaml.Node, path: str) -> int:
    """Return the line of a path, counted from 1. If the path is missing, use its deepest parent."""
    node, line = document, document.start_mark.line
    for part in split_path(path):
        found = _enter(node, part)
        if found is None:
            break
        node, line = found
    return int(line) + 1


def _locate(
    problem: Problem, file: Path, document: yaml.Node, changed: Sequence[list[str]]
) -> Problem:
    parts = split_from_top(problem.path)
    is_changed = any(setting and parts[: len(setting)] == setting for setting in changed)
    if not parts or problem.position or is_changed:
        return problem
    return replace(problem, position=f"{file}:{find_line(document, problem.path)}")


def _enter(node: yaml.Node, part: str) -> tuple[yaml.Node, int] | None:
    """Return a child node and its line, or None if there is no such child."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == part:
                return value, key.start_mark.line
    elif isinstance(node, yaml.SequenceNode) and part.isdecimal() and int(part) < len(node.value):
        item = node.value[int(part)]
        return item, item.start_mark.line
    return None


def _compose(file: Path, name: str) -> yaml.Node | None:
    """Return the YAML nodes of a pipeline's document.

    Return None if the document is unreadable, or comes from an API server.
    """
    # A pipe can't be read a second time, and opening a named pipe could wait forever.
    if not file.is_file():
        return None
    try:
        text = file.read_bytes().decode("utf-8-sig")
        documents = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return None
    for document in documents:
        metadata = _enter(document, "metadata")
        found = _enter(metadata[0], "name") if metadata else None
        if not name or (found and found[0].value == name):
            return None if _is_stored(metadata) else document
    return None


def _is_stored(metadata: tuple[yaml.Node, int] | None) -> bool:
    """Return whether an operator wrote the document. Users do not know its lines."""
    annotations = _enter(metadata[0], "annotations") if metadata else None
    return annotations is not None and _enter(annotations[0], STORED_ANNOTATION) is not None
