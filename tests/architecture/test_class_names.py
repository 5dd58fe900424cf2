"""A class is looked up by its name alone: no two of the distribution share one."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable

import pytest

from source_tree import PACKAGES, Module, list_modules


def find_shared(modules: Iterable[Module]) -> set[str]:
    """Names of more than one class; those inside of other classes are told by the outer one."""
    names = Counter(
        node.name
        for module in modules
        for node in module.tree.body
        if isinstance(node, ast.ClassDef)
    )
    return {name for name, count in names.items() if count > 1}


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["class A: ...", "class B: ..."], set()),
        (["class A: ...", "class A: ..."], {"A"}),
        (["class A:\n    class Params: ...", "class B:\n    class Params: ..."], set()),
    ],
)
def test_a_shared_name_is_seen(texts: list[str], expected: set[str]) -> None:
    modules = [Module(f"{at}.py", text, ast.parse(text)) for at, text in enumerate(texts)]
    assert find_shared(modules) == expected


def test_no_two_classes_share_a_name() -> None:
    assert find_shared(list_modules(*PACKAGES)) == set()
