"""Names and docstrings follow the dictionary of CONTRIBUTING.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from source_tree import PACKAGES, ROOT, Function, Module, list_modules

# Packages whose names must follow the dictionary.
CHECKED = ("bench", "e2e", *PACKAGES)
# Exempt names, with the reason: users write them, or Python prescribes them.
PUBLISHED = {
    "PlaceTakenError": "public in strandline.errors",
    "UnreadablePlaceError": "public in strandline.errors",
    "list_places": "public: stages of users have it",
    "work": "public: strandline.work",
    "tell": "Python's own name of where a file is",
}
# Words that are not verbs. A function's docstring must begin with a verb.
# fmt: off
NO_VERBS = {
    "a", "all", "an", "another", "any", "as", "both", "each", "every", "false", "from", "held",
    "how", "in", "it", "its", "no", "none", "nothing", "of", "on", "one", "only", "our",
    "several", "so", "such", "that", "the", "their", "there", "this", "those", "true", "two",
    "what", "when", "where", "whether", "which", "who", "why", "with", "without",
}
# fmt: on
# Words that begin a clause. A property's docstring must be a noun phrase.
NO_NOUNS = {"as", "false", "how", "so", "that", "true", "what", "when", "where", "whether", "why"}
Documented = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Entry(NamedTuple):
    """A row of the dictionary: words to avoid, replacements, and the places to check."""

    words: frozenset[str]
    remedy: str
    in_parts: bool
    in_docstrings: bool


def read_dictionary(text: str) -> list[Entry]:
    """Read the table below `## Words` of CONTRIBUTING.md."""
    section = text.partition("\n## Words\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("| `")]
    return [
        Entry(
            frozenset(re.findall(r"`(\w+)`", row[0])),
            row[1].replace("`", "").strip(),
            "whole" not in row[2],
            "docstrings" in row[2],
        )
        for row in rows
    ]


DICTIONARY = read_dictionary((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))


def split(name: str) -> list[str]:
    """Split a name into lowercase words, whatever its spelling: `HeldError` or `_HELD_ERROR`."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def list_names(module: Module) -> Iterator[tuple[int, str]]:
    """Yield the names that a module defines, with their line numbers."""
    yield 1, module.path.rpartition("/")[2].removesuffix(".py")
    for node in ast.walk(module.tree):
        if isinstance(node, Documented):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def find_dialect(module: Module) -> Iterator[str]:
    """Describe names that contain a word to avoid: file, line, name, and replacement."""
    for line, name in list_names(module):
        if name.strip("_") in PUBLISHED:
            continue
        for entry in DICTIONARY:
            words = split(name) if entry.in_parts else [name.strip("_")]
            for word in sorted(entry.words.intersection(words)):
                yield f"{module.path}:{line}: {name}: {describe_remedy(word, entry)}"


def describe_remedy(word: str, entry: Entry) -> str:
    return f"in place of {word!r} write: {entry.remedy} (CONTRIBUTING.md, Words)"


def list_docstrings(module: Module) -> Iterator[tuple[Documented, str]]:
    """Yield classes and functions with the first line of their docstrings."""
    for node in ast.walk(module.tree):
        if isinstance(node, Documented) and (text := ast.get_docstring(node)):
            yield node, text.splitlines()[0]


def find_spoken(module: Module) -> Iterator[str]:
    """Yield words to avoid in first lines of docstrings, and replacements."""
    entries = [entry for entry in DICTIONARY if entry.in_docstrings]
    for node, line in list_docstrings(module):
        said = re.findall(r"[a-z]+", line.lower())
        for entry in entries:
            for word in sorted(entry.words.intersection(said)):
                yield f"{module.path}:{node.lineno}: {line}: {describe_remedy(word, entry)}"


def has_decorator(node: Function, name: str) -> bool:
    return any(name in ast.unparse(decorator) for decorator in node.decorator_list)


def find_no_verbs(module: Module) -> Iterator[str]:
    """Yield functions whose docstrings do not begin with a verb."""
    for node, line in list_docstrings(module):
        if not isinstance(node, Function) or has_decorator(node, "command"):
            continue
        first = re.sub(r"[^\w].*", "", line.strip("`")).lower()
        is_noun = has_decorator(node, "property")
        if first in (NO_NOUNS if is_noun else NO_VERBS):
            remedy = "a noun" if is_noun else "a verb, such as Return or Yield"
            yield f"{module.path}:{node.lineno}: {first}: begin the docstring with {remedy}"


def make_module(text: str, path: str = "crds/strandline_api/sample.py") -> Module:
    return Module(path, text, ast.parse(text))


def test_the_dictionary_has_words_of_each_kind() -> None:
    assert len(DICTIONARY) > 10
    assert any(not entry.in_parts for entry in DICTIONARY)
    assert any(entry.in_docstrings for entry in DICTIONARY)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def spell_time(): ...", ["spell_time"]),
        ("class ParkedSource: ...", ["ParkedSource"]),
        ("def find(place): ...", ["place"]),
        ("self._place = 1", ["_place"]),
        ("names = [one.name for one in pods]", ["one"]),
        ("names = [pod.name for pod in pods if is_one(pod)]", []),
        ("class PlaceTakenError(Exception): ...", []),
        ("replaced = spelling_of(displace)", []),
    ],
)
def test_a_name_with_a_word_to_avoid_is_found(text: str, expected: list[str]) -> None:
    assert [found.split(": ")[1] for found in find_dialect(make_module(text))] == expected


def test_a_module_name_with_a_word_to_avoid_is_found() -> None:
    assert list(find_dialect(make_module("", "crds/strandline_api/places.py")))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Spell a time.", ["'spell'"]),
        ("Return what was parked, as it is spelled.", ["'spelled'", "'parked'"]),
        ("Return the place of a pod.", []),
    ],
)
def test_a_docstring_with_a_word_to_avoid_is_found(line: str, expected: list[str]) -> None:
    module = make_module(f'def run():\n    """{line}"""')
    assert [re.findall(r"'\w+'", found)[0] for found in find_spoken(module)] == expected


def test_a_finding_names_file_line_word_and_remedy() -> None:
    module = make_module('\ndef spell_time():\n    """The time."""\n')
    (name,), (docstring,) = find_dialect(module), find_no_verbs(module)
    assert name == (
        "crds/strandline_api/sample.py:2: spell_time: in place of 'spell' write: "
        "format, render, describe (CONTRIBUTING.md, Words)"
    )
    assert docstring == (
        "crds/strandline_api/sample.py:2: the: begin the docstring with a verb, such as Return "
        "or Yield"
    )


@pytest.mark.parametrize(
    ("line", "decorator", "is_found"),
    [
        ("Return the time.", "", False),
        ("The time.", "", True),
        ("Whether it is so.", "", True),
        ("When it was last another one.", "", True),
        ("The time.", "@property", False),
        ("Whether it is so.", "@property", True),
        ("The program's help.", "@click.command()", False),
    ],
)
def test_a_docstring_without_a_verb_is_found(line: str, decorator: str, is_found: bool) -> None:
    module = make_module(f'{decorator}\ndef run():\n    """{line}"""')
    assert bool(list(find_no_verbs(module))) == is_found


def test_names_are_words_of_the_field() -> None:
    found = [name for module in list_modules(*CHECKED) for name in find_dialect(module)]
    assert found == [], "\n".join(found)


def test_docstrings_have_words_of_the_field() -> None:
    found = [line for module in list_modules(*CHECKED) for line in find_spoken(module)]
    assert found == [], "\n".join(found)


def test_docstrings_of_functions_begin_with_a_verb() -> None:
    rooms = [room for room in CHECKED if room.startswith(("crds", "operator", "pipelines"))]
    found = [line for module in list_modules(*rooms) for line in find_no_verbs(module)]
    assert found == [], "\n".join(found)
