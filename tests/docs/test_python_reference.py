"""The reference of Python has every public name, and follows from the docstrings."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from public_names import PublicName, read_name, read_names
from python_reference import PAGE, main, read_words, render_page
from strandline import Stage

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / PAGE).read_text(encoding="utf-8")


def test_the_page_is_up_to_date() -> None:
    assert render_page() == TEXT


def test_a_stale_page_is_told_and_made_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / PAGE
    page.parent.mkdir()
    assert main(["--check"], tmp_path) == 1
    shutil.copy(ROOT / PAGE, page)
    assert main(["--check"], tmp_path) == 0
    page.write_text(TEXT.replace("Pipeline", "Pipe"), encoding="utf-8")
    capsys.readouterr()

    assert main(["--check"], tmp_path) == 1
    assert capsys.readouterr().err == "api-python.md is out of date; run: make reference\n"

    assert main([], tmp_path) == 0
    assert page.read_text(encoding="utf-8") == TEXT


def test_every_public_name_is_on_the_page() -> None:
    for name in read_names():
        last = name.path.rpartition("(" if name.path.endswith(")") else ".")[2].rstrip(")")
        written = (f"`{last}`", f".{last}`", f" {last}:", f"({last}:", f"\n    {last}:")
        assert any(text in TEXT for text in written), name.path


def find_undescribed(names: Iterable[PublicName]) -> list[str]:
    """Arguments that nobody describes, where others of the same call are described."""
    known, missing = list(names), []
    for owner in known:
        words = read_words(getattr(owner.found, "__doc__", None) or "")
        told = {each for listed in words.items.get("Args", {}) for each in listed.split(", ")}
        taken = [each.path for each in known if each.path.startswith(f"{owner.path}(")]
        missing += [path for path in taken if told and path[len(owner.path) + 1 : -1] not in told]
    return missing


def test_where_arguments_are_described_all_are() -> None:
    assert find_undescribed(read_names()) == []


def test_an_argument_without_words_is_seen() -> None:
    def go(one: int, other: int) -> None:
        """Go.

        Args:
            one: described.
        """

    assert find_undescribed(read_name("go", go)) == ["go(other)"]


def test_a_docstring_is_taken_apart() -> None:
    words = read_words(
        """Do it.

        And more.

        Args:
            one, other: what is
                done: twice.
            **rest: the rest.

        Returns:
            What came
            of it.

        Raises:
            ValueError: it is odd.
        """
    )
    assert words.text == "Do it.\n\nAnd more."
    assert words.items == {
        "Args": {"one, other": "what is done: twice.", "**rest": "the rest."},
        "Returns": {"": "What came of it."},
        "Raises": {"ValueError": "it is odd."},
    }
    assert read_words(Stage.__doc__ or "").items["Attributes"]["counters"]
