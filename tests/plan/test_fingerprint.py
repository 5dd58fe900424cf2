"""The fingerprint depends on everything that decides the output, and on nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import Field

from strandline.plan.fingerprint import (
    Fingerprint,
    add_code,
    adopt_code,
    compute_fingerprint,
    describe_difference,
    find_first_change,
    keep_code,
)
from strandline.plan.stages.ends import OnRemoved, Source, SourceStage
from strandline.plan.stages.stage import Stage


class Words(Stage):
    class Params(Stage.Params):
        """One relevant parameter."""

        min_words: int = 5

    params: Params


class ListedWords(Words):
    def digest_inputs(self) -> dict[str, str]:
        return {"list": "f00"}


class WordsOfALaterRelease(Words):
    class Params(Words.Params):
        """One additional parameter."""

        kinds: dict[str, int] = Field(default_factory=dict)

    params: Params
    added_params = frozenset({"kinds"})


class NewWords(Words):
    version = "2"


class Listing(SourceStage):
    class Params(SourceStage.Params):
        """A relevant parameter, and one that does not affect the output."""

        limit: int | None = None
        folder: str = "a"

    params: Params

    def list_sources(self) -> Iterator[Source]:
        yield Source("one", "1", None)


def fingerprint(
    stage: Stage, use: str = "words", group: int | None = None, **source: Any
) -> Fingerprint:
    return compute_fingerprint(
        {"source": ("list", Listing(**source), None), "words": (use, stage, group)}
    )


BASE = fingerprint(Words())


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        (fingerprint(Words(min_words=8)), "words.with.minWords: 5 -> 8"),
        (fingerprint(NewWords()), 'words.version: "1" -> "2"'),
        (fingerprint(ListedWords()), 'words.inputs.list: (none) -> "f00"'),
        (fingerprint(Words(), use="other"), 'words.use: "words" -> "other"'),
        (fingerprint(Words(), group=4), "words.group: (none) -> 4"),
        (fingerprint(Words(), folder="b"), 'source.with.folder: "a" -> "b"'),
    ],
)
def test_everything_that_decides_the_output_is_in_the_fingerprint(
    changed: Fingerprint, line: str
) -> None:
    assert changed.digest != BASE.digest
    assert describe_difference(BASE.parts, changed.parts) == [line]


@pytest.mark.parametrize("source", [{"limit": 3}, {"on_removed": OnRemoved.DELETE}])
def test_the_set_of_sources_is_not_in_the_fingerprint(source: dict[str, Any]) -> None:
    assert fingerprint(Words(), **source) == BASE


def test_the_order_of_stages_is_in_the_fingerprint() -> None:
    there = compute_fingerprint({"a": ("u", Words(), None), "b": ("u", Words(), None)})
    back = compute_fingerprint({"b": ("u", Words(), None), "a": ("u", Words(), None)})

    assert there.digest != back.digest
    assert describe_difference(there.parts, back.parts) == ['order: ["a", "b"] -> ["b", "a"]']


def test_the_same_pipeline_has_the_same_fingerprint() -> None:
    assert fingerprint(Words()) == BASE


def test_user_code_changes_the_fingerprint_and_no_code_does_not() -> None:
    stages = {"source": ("list", Listing(), None), "words": ("words", Words(), None)}
    plain = compute_fingerprint(stages)
    assert compute_fingerprint(stages, {}) == plain == BASE
    one, other = (compute_fingerprint(stages, {"code.files": digest}) for digest in ("ab", "cd"))
    assert len({plain.digest, one.digest, other.digest}) == 3
    assert describe_difference(one.parts, other.parts) == ['code.files: "ab" -> "cd"']
    assert describe_difference(plain.parts, one.parts) == ['code.files: (none) -> "ab"']


class Growing(Listing):
    class Params(Listing.Params):
        """A list that only adds sources."""

        more_paths: tuple[str, ...] = ()

    params: Params
    adding = frozenset({"more_paths"})


@pytest.mark.parametrize(
    ("old", "new", "is_told"),
    [
        (("a",), ("a", "b"), False),
        ((), ("a",), False),
        (("a", "b"), ("a",), True),
        (("a",), ("b", "a"), True),
        (("a",), ("b",), True),
    ],
)
def test_appended_source_paths_are_not_a_change(
    old: tuple[str, ...], new: tuple[str, ...], *, is_told: bool
) -> None:
    before, after = (
        compute_fingerprint({"list": ("list", Growing(more_paths=paths), None)})
        for paths in (old, new)
    )
    told = describe_difference(before.parts, after.parts, after.growing)
    assert bool(told) == is_told
    assert describe_difference(before.parts, after.parts)


def test_a_new_parameter_counts_only_when_set() -> None:
    assert BASE.digest == fingerprint(WordsOfALaterRelease()).digest
    assert BASE.digest == fingerprint(WordsOfALaterRelease(kinds={})).digest
    later = fingerprint(WordsOfALaterRelease(kinds={"email": 1}))
    assert ["words.with.kinds.email: (none) -> 1"] == describe_difference(BASE.parts, later.parts)


OLD = {
    "order": ["files", "read", "own", "sink"],
    "files.use": "files",
    "read.with.columns": ["a"],
    "own.use": "mine:Own",
    "own.with.limit": 1,
    "sink.use": "parquet",
    "code.files": "0a",
    "code.packages": ["one==1"],
}


@pytest.mark.parametrize(
    ("change", "first"),
    [
        ({}, None),
        ({"own.with.limit": 2}, "own"),
        ({"own.with.more": 2}, "own"),
        ({"sink.use": "jsonl"}, "sink"),
        ({"files.use": "other", "sink.use": "jsonl"}, "files"),
        ({"order": ["files", "read", "sink"]}, "sink"),
        ({"order": ["files", "new", "read", "own", "sink"]}, "new"),
        ({"order": ["files", "read", "sink", "own"]}, "sink"),
        # Only a stage that names a module can depend on the user's code.
        ({"code.files": "0b"}, "own"),
        ({"code.files": "0b", "own.use": "own"}, "own"),
        ({"code.files": "0b", "read.with.columns": ["b"]}, "read"),
        ({"code.packages": ["one==2"]}, "files"),
        ({"read.with.columns": ["a", "b"]}, None),
    ],
)
def test_the_first_stage_that_differs_is_found(
    change: dict[str, object], first: str | None
) -> None:
    new = OLD | change
    assert first == find_first_change(OLD, new, {"read.with.columns"})


def test_code_that_no_stage_names_may_change_every_stage() -> None:
    old = OLD | {"own.use": "own"}
    assert "files" == find_first_change(old, old | {"code.files": "0b"})


def with_code(*stages: tuple[str, dict[str, str]], **parts: Any) -> dict[str, Any]:
    base = Fingerprint("", {"order": ["a", "b", "code"]} | parts)
    return add_code(base, dict(stages), ()).parts


@pytest.mark.parametrize(
    ("old", "new", "lines", "first"),
    [
        ({"x.py": "1"}, {"x.py": "1"}, [], None),
        ({"x.py": "1"}, {"x.py": "2"}, ["b: x.py has changed"], "b"),
        ({}, {"x.py": "2"}, ["b: x.py is new"], "b"),
        ({"x.py": "2"}, {}, ["b: x.py is no longer used"], "b"),
        ({"x": "version 1"}, {"x": "version 2"}, ["b: x version 1 -> 2"], "b"),
        (
            {"x.py": "1"},
            {"x": "version 2"},
            ["b: x version 2 is new", "b: x.py is no longer used"],
            "b",
        ),
        ({"x": "version 1"}, {"x": "2"}, ["b: x has changed"], "b"),
        (None, {"x.py": "2"}, [], None),
        ({"x.py": "2"}, None, [], None),
    ],
)
def test_the_code_of_a_stage_is_compared_by_file(
    old: dict[str, str] | None, new: dict[str, str] | None, lines: list[str], first: str | None
) -> None:
    before, after = (with_code(*([] if code is None else [("b", code)])) for code in (old, new))
    assert describe_difference(before, after) == lines
    assert find_first_change(before, after) == first


def test_a_stage_and_a_parameter_may_be_called_code() -> None:
    old = with_code(("code", {"x.py": "1"}), **{"a.with.code": "1", "code.files": "0a"})
    new = with_code(("code", {"x.py": "2"}), **{"a.with.code": "2", "code.files": "0a"})
    expected = ['a.with.code: "1" -> "2"', "code: x.py has changed"]
    assert describe_difference(old, new) == expected


def test_readable_code_is_part_of_the_digest_and_unreadable_code_is_not() -> None:
    one, other = (add_code(BASE, {"words": {"x.py": digest}}, ()) for digest in "12")
    assert len({BASE.digest, one.digest, other.digest}) == 3
    assert add_code(BASE, {}, ["words: x"]).digest == BASE.digest


def test_a_recipe_without_code_adopts_the_attempts_code() -> None:
    new = with_code(("a", {"x.py": "1"}), ("b", {"y.py": "1"}))
    old = {"order": ["b"]}
    assert adopt_code(old, new) == {"order": ["b"], "b.code": {"y.py": "1"}}
    known = with_code(("b", {"y.py": "0"}))
    assert adopt_code(known, new)["b.code"] == {"y.py": "0"}


def test_without_recorded_code_a_conversation_is_compared_by_its_lines() -> None:
    old = {"order": ["b"], "b.inputs.rollout": "1"}
    same, other = (
        with_code(("b", {"y.py": "1"}), order=["b"], **{"b.inputs.rollout": lines})
        for lines in "12"
    )
    assert adopt_code(old, same)["b.code"]
    for before in (old, adopt_code(old, other)):
        assert find_first_change(before, other) == "b"
    # If the module's files are recorded, changed comments do not count.
    assert find_first_change(same, other) is None


def test_a_file_of_several_stages_has_one_line() -> None:
    old, new = (
        with_code(("a", {"x.py": at, "y.py": "1"}), ("b", {"x.py": at}), **{"a.with.n": at})
        for at in "12"
    )
    lines = ['a.with.n: "1" -> "2"', "a, b: x.py has changed"]
    assert describe_difference(old, new) == lines


def test_a_file_of_a_parameter_may_appear() -> None:
    """A stage may write a log or a cache to a path parameter."""
    params = {"b.with.log": "run.log", "b.with.lists": ["words.txt"]}
    old = with_code(("b", {"x.py": "1"}), **params)
    later = with_code(("b", {"x.py": "1", "run.log": "2", "words.txt": "3"}), **params)
    assert describe_difference(old, later) == []
    kept = keep_code(old, Fingerprint("d", later))
    assert kept.parts == old
    edited = with_code(("b", {"x.py": "2", "run.log": "2"}), **params)
    assert find_first_change(old, edited) == "b"
    assert keep_code(old, Fingerprint("d", edited)).parts == edited
