"""A package has at most eleven entries, counting modules and subpackages; a list may have more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import PurePosixPath

import pytest

from source_tree import PACKAGES, list_modules

MAX_BOXES = 11
# A pack for each kind of data: users look for a pack by its name, and new kinds add packs.
LISTS = {"pipelines/strandline_packs"}


def find_crowded(paths: Iterable[str]) -> dict[str, int]:
    """Return the packages with too many entries, and their counts."""
    boxes: dict[str, set[str]] = defaultdict(set)
    for path in map(PurePosixPath, paths):
        if path.name != "__init__.py":
            boxes[path.parent.as_posix()].add(path.name)
        # A subpackage counts as one entry of its parent.
        for room in path.parents:
            boxes[room.parent.as_posix()].add(room.name)
    return {room: len(held) for room, held in boxes.items() if len(held) > MAX_BOXES}


def name_modules(room: str, count: int) -> list[str]:
    return [f"{room}/module_{number}.py" for number in range(count)]


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["a/b/__init__.py", *name_modules("a/b", 11)], {}),
        (name_modules("a/b", 12), {"a/b": 12}),
        ([*name_modules("a/b", 11), "a/b/c/d.py"], {"a/b": 12}),
        ([f"a/b/{letter}/module.py" for letter in "cdefghijklmno"], {"a/b": 13}),
    ],
)
def test_a_package_with_too_many_entries_is_found(
    paths: list[str], expected: dict[str, int]
) -> None:
    assert find_crowded(paths) == expected


def test_no_package_has_too_many_entries() -> None:
    modules = list_modules(*PACKAGES, "bench", "e2e")
    assert len(modules) > 450
    found = find_crowded(module.path for module in modules)
    assert found.keys() <= LISTS, f"more than {MAX_BOXES} boxes: {found}"
