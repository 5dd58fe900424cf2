"""Counts words that make prose hard to read, in comments, docstrings, and pages.

A budget may only fall. The aims are 35 pronouns, 2 clauses, and 1 verb of conversation per 1,000
words. The counts are a floor: clear sentences are the goal.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache, partial
from typing import Generic, NamedTuple, TypeVar

import pytest

from source_tree import PACKAGES, ROOT, TRIAL_PACKAGES, Module, list_files, list_modules

Each = TypeVar("Each")
# Patterns whose matches are counted per 1,000 words.
PROSE = {
    "pronouns": r"it|its|they|them|their|those|one|ones|others|none|each|such",
    "clauses": r"what|whatever|who|whoever|whom|somebody|nobody|anybody|that which",
    "conversation": r"says?|said|tells?|told|asks?|asked|hears?|heard|knows?|wish(?:es)?|lets?",
}
WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
# A comment that begins with one of these words has no noun as its subject. Determiners such as
# "each" and "this" are allowed, because a noun follows.
# fmt: off
PRONOUNS = {
    "else", "he", "here", "it", "its", "none", "nothing", "of", "one", "others", "she", "somebody",
    "something", "such", "that", "there", "they", "those", "what", "whatever", "which", "who",
    "whoever", "whose",
}
# Bare participles are bad names, because they describe an action instead of an object.
PARTICIPLES = {
    "asked", "begun", "bound", "brought", "built", "chosen", "done", "drawn", "ended", "expected",
    "failed", "found", "given", "gone", "held", "kept", "known", "left", "listed", "lost", "made",
    "merged", "moved", "named", "noted", "packed", "parsed", "read", "rendered", "seen", "sent",
    "shown", "taken", "used", "wanted", "written",
}
# fmt: on


class Voice(NamedTuple, Generic[Each]):
    """One value for each figure.

    Attributes:
        pronouns, clauses, conversation: matches of `PROSE` per 1,000 words.
        openings: comments that begin with a pronoun, per 1,000 comments.
        participles: names of variables and parameters that are bare participles, per 1,000 names.
    """

    pronouns: Each
    clauses: Each
    conversation: Each
    openings: Each
    participles: Each


PER = 1000
SHOWN = 20  # number of findings in the error message for an exceeded budget
# The current measurements, rounded up.
BUDGETS = {
    "product": Voice(pronouns=25, clauses=1, conversation=1, openings=4, participles=34),
    "trials": Voice(pronouns=34, clauses=1, conversation=1, openings=1, participles=45),
    "tests": Voice(pronouns=33, clauses=1, conversation=1, openings=20, participles=47),
}
TREES = {"product": PACKAGES, "trials": TRIAL_PACKAGES, "tests": ("tests",)}
PAGES = Voice(pronouns=39, clauses=4, conversation=2, openings=0, participles=0)


@cache  # every figure needs the comments, and the tokenizer is slow
def list_comments(module: Module) -> tuple[tuple[int, str], ...]:
    return tuple(_find_comments(module))


def _find_comments(module: Module) -> Iterator[tuple[int, str]]:
    """Yield comments with their line numbers.

    Consecutive lines count as one comment. Directives, such as `noqa`, do not count.
    """
    lines: list[str] = []
    first = last = 0
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type != tokenize.COMMENT:
            continue
        text = token.string.lstrip("#").strip()
        if re.match(r"(noqa|type:|fmt:|pragma)", text):
            continue
        if lines and token.start[0] == last + 1:
            lines.append(text)
        else:
            if lines:
                yield first, " ".join(lines)
            first, lines = token.start[0], [text]
        last = token.start[0]
    if lines:
        yield first, " ".join(lines)


@cache
def list_docstrings(module: Module) -> tuple[tuple[int, str], ...]:
    return tuple(_find_docstrings(module))


def _find_docstrings(module: Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(module.tree):
        if isinstance(
            node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ) and (text := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), text


def list_names(module: Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id


def find_words(figure: str, module: Module) -> Iterator[str]:
    pattern = re.compile(rf"\b({PROSE[figure]})\b", re.IGNORECASE)
    for line, text in [*list_comments(module), *list_docstrings(module)]:
        for word in pattern.findall(text):
            if word == "None":  # Python's value, not the pronoun
                continue
            yield f"{module.path}:{line}: {word}: name the user, the program, or the object"


def find_openings(module: Module) -> Iterator[str]:
    for line, text in list_comments(module):
        if (match := WORD.match(text)) and match[0].lower() in PRONOUNS:
            yield f"{module.path}:{line}: {match[0]}: begin the comment with a noun"


def find_participles(module: Module) -> Iterator[str]:
    for line, name in list_names(module):
        if name.strip("_") in PARTICIPLES:
            yield f"{module.path}:{line}: {name}: name it by a noun: what it holds"


FINDERS = Voice(
    partial(find_words, "pronouns"),
    partial(find_words, "clauses"),
    partial(find_words, "conversation"),
    find_openings,
    find_participles,
)


def find_all(modules: tuple[Module, ...], figure: str) -> list[str]:
    return [found for module in modules for found in getattr(FINDERS, figure)(module)]


def measure(modules: tuple[Module, ...]) -> Voice[int]:
    comments = [text for module in modules for _, text in list_comments(module)]
    docstrings = [text for module in modules for _, text in list_docstrings(module)]
    words = len(WORD.findall(" ".join([*comments, *docstrings])))
    wholes = Voice(
        words,
        words,
        words,
        sum(bool(WORD.match(text)) for text in comments),
        sum(1 for module in modules for _ in list_names(module)),
    )
    shares = (
        _share(len(find_all(modules, figure)), whole)
        for figure, whole in zip(Voice._fields, wholes, strict=True)
    )
    return Voice(*shares)


def _share(part: int, whole: int) -> int:
    return -(-part * PER // whole) if whole else 0


def measure_pages() -> Voice[int]:
    """Measure the pages of `docs`, without code and design notes."""
    pages = (path for path in list_files() if path.match("docs/*.md") or path.match("*.md"))
    texts = [re.sub(r"```.*?```", "", (ROOT / path).read_text(), flags=re.DOTALL) for path in pages]
    words = len(WORD.findall(" ".join(texts)))
    found = {
        figure: sum(len(re.findall(rf"(?i)\b({pattern})\b", text)) for text in texts)
        for figure, pattern in PROSE.items()
    }
    shares = {figure: _share(number, words) for figure, number in found.items()}
    return Voice(**shares, openings=0, participles=0)


def describe_excess(modules: tuple[Module, ...], figure: str, now: int, budget: int) -> str:
    """Describe an exceeded budget, with examples from the most recently edited files."""
    newest = sorted(modules, key=lambda each: -(ROOT / each.path).stat().st_mtime)
    found = find_all(tuple(newest), figure)[:SHOWN]
    return "\n".join([f"{figure}: {now}, and {budget} is allowed; change some of these:", *found])


@cache
def measure_tree(tree: str) -> Voice[int]:
    return measure(list_modules(*TREES[tree]))


@pytest.mark.parametrize("figure", Voice._fields)
@pytest.mark.parametrize("tree", TREES)
def test_no_figure_gets_worse(tree: str, figure: str) -> None:
    now, budget = getattr(measure_tree(tree), figure), getattr(BUDGETS[tree], figure)
    assert now <= budget, describe_excess(list_modules(*TREES[tree]), figure, now, budget)


@pytest.mark.parametrize("figure", Voice._fields)
@pytest.mark.parametrize("tree", TREES)
def test_an_improvement_lowers_the_budget(tree: str, figure: str) -> None:
    now, budget = getattr(measure_tree(tree), figure), getattr(BUDGETS[tree], figure)
    assert now > budget * 0.9 - 2, f"{tree}, {figure}: lower the budget from {budget} to {now}"


@pytest.mark.parametrize("figure", PROSE)
def test_pages_get_no_worse(figure: str) -> None:
    now, budget = getattr(measure_pages(), figure), getattr(PAGES, figure)
    assert budget * 0.9 - 2 < now <= budget, f"{figure}: {now}, and the budget is {budget}"


def test_each_figure_sees_what_it_counts() -> None:
    plain = '"""Words alone."""\n\nvalue = 1  # the reason\n'
    poor = '"""Whoever reads it."""\n\nfound = 1  # it is so\n'
    good, bad = (measure((Module("a.py", text, ast.parse(text)),)) for text in (plain, poor))
    assert good == Voice(0, 0, 0, 0, 0)
    assert bad.pronouns == 2 * bad.clauses > 0 == bad.conversation
    assert bad.openings == bad.participles == 1000


@pytest.mark.parametrize(
    ("figure", "words"),
    [
        ("clauses", ":1: Whoever: name the user, the program, or the object"),
        ("openings", ":3: it: begin the comment with a noun"),
        ("participles", ":3: found: name it by a noun: what it holds"),
    ],
)
def test_an_excess_names_file_line_word_and_remedy(figure: str, words: str) -> None:
    path, text = (
        "crds/strandline_api/__init__.py",
        '"""Whoever reads it."""\n\nfound = 1  # it is so\n',
    )
    message = describe_excess((Module(path, text, ast.parse(text)),), figure, 1000, 6)
    assert message.splitlines() == [
        f"{figure}: 1000, and 6 is allowed; change some of these:",
        f"{path}{words}",
    ]
