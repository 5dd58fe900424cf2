"""Class names are unique in the distribution, so that a search finds one class."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable

import pytest

from source_tree import PACKAGES, Module, list_modules


def find_shared(modules: Iterable[Module]) -> dict[str, list[str]]:
    """Return duplicate class names with their lines; nested classes include the outer name."""
    found: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(f"{module.path}:{node.lineno}")
    return {name: lines for name, lines in found.items() if len(lines) > 1}


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["class A: ...", "class B: ..."], []),
        (["class A: ...", "class A: ..."], ["A"]),
        (["class A:\n    class Params: ...", "class B:\n    class Params: ..."], []),
    ],
)
def test_a_duplicate_name_is_found(texts: list[str], expected: list[str]) -> None:
    modules = [Module(f"{at}.py", text, ast.parse(text)) for at, text in enumerate(texts)]
    assert list(find_shared(modules)) == expected


def test_no_two_classes_share_a_name() -> None:
    assert find_shared(list_modules(*PACKAGES)) == {}, "rename all but one"
