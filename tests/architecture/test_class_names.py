"""Class names are nouns, and unique in the distribution so that a search finds one class."""

from __future__ import annotations

import ast
import re
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


PARTICIPLE = re.compile(r"_?[A-Z][a-z]+ed")
NO_PARTICIPLES = {"Need"}


def find_participles(modules: Iterable[Module]) -> list[str]:
    """Return the classes whose whole name is a participle, with their lines."""
    return [
        f"{module.path}:{node.lineno}: {node.name}"
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef)
        and PARTICIPLE.fullmatch(node.name)
        and node.name not in NO_PARTICIPLES
    ]


def test_a_participle_is_found() -> None:
    text = "class Judged: ...\nclass JudgedRows: ...\nclass _Failed: ..."
    assert len(find_participles([Module("a.py", text, ast.parse(text))])) == 2


def test_classes_are_named_by_nouns() -> None:
    assert find_participles(list_modules(*PACKAGES)) == [], "name the class by what it holds"
