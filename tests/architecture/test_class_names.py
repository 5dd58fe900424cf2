"""A class is looked up by its name alone: no two of the distribution share one."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable

import pytest

from source_tree import PACKAGES, Module, list_modules


def find_shared(modules: Iterable[Module]) -> dict[str, list[str]]:
    """Return names of more than one class with their lines; a nested class has its outer one's."""
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
def test_a_shared_name_is_seen(texts: list[str], expected: list[str]) -> None:
    modules = [Module(f"{at}.py", text, ast.parse(text)) for at, text in enumerate(texts)]
    assert list(find_shared(modules)) == expected


def test_no_two_classes_share_a_name() -> None:
    assert find_shared(list_modules(*PACKAGES)) == {}, "rename all but one"
