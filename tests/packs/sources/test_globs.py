"""Glob matching, and the parts of a pattern."""

import sysconfig

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.data.files.globs import (
    Exclusion,
    check_pattern,
    expand_placeholder,
    is_url,
    parse_pattern,
    translate_glob,
)

NAMES = st.text(st.sampled_from("ab.[]*?-!^\\ é"), min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("glob", "path", "matches"),
    [
        ("*.py", "a.py", True),
        ("*.py", "b/a.py", False),
        ("*.py", ".a.py", False),
        (".*.py", ".a.py", True),
        ("**/*.py", "a.py", True),
        ("**/*.py", "b/c/a.py", True),
        ("**/*.py", "b/.git/a.py", False),
        ("**", "b/c/a.py", True),
        ("**", "b/.git/a.py", False),
        ("b/**", "b/c/a.py", True),
        ("b/**", "bc/a.py", False),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("[ab].txt", "a.txt", True),
        ("[!ab].txt", "a.txt", False),
        ("[!ab].txt", "c.txt", True),
        ("[]].txt", "].txt", True),
        ("a.py", "axpy", False),
        ("a.py", "a.py\n", False),
    ],
)
def test_glob(glob: str, path: str, *, matches: bool) -> None:
    assert matches == bool(translate_glob(glob, hidden=False).match(path))


@given(NAMES)
def test_a_name_without_wildcards_matches_itself(name: str) -> None:
    plain = name.replace("*", "x").replace("?", "y").replace("[", "z")
    assert translate_glob(plain, hidden=False).match(plain)


@given(NAMES)
def test_every_text_is_a_valid_glob(glob: str) -> None:
    translate_glob(glob, hidden=False)
    translate_glob(glob, hidden=True)


def test_a_pattern_splits_before_its_first_wildcard() -> None:
    pattern = parse_pattern("{stdlib}/json/**/*.py")
    assert ("{stdlib}/json/", "**/*.py") == (pattern.prefix, pattern.rest)
    assert f"{sysconfig.get_path('stdlib')}/json" == pattern.base
    assert "{stdlib}/json/a/b.py" == pattern.format_key("a/b.py")
    assert "a/b.py" == pattern.find_below(f"{pattern.base}/a/b.py")
    assert pattern.find_below(f"{pattern.base}/a/b.txt") is None
    assert pattern.find_below("/elsewhere/b.py") is None


def test_a_pattern_at_the_root_and_a_url_keep_their_base() -> None:
    assert "/" == parse_pattern("/*.txt").base
    assert "memory://shelf" == parse_pattern("memory://shelf/*.txt").base
    assert "memory://shelf/" == parse_pattern("memory://shelf/*.txt").prefix


def test_placeholders() -> None:
    assert expand_placeholder("{site-packages}/x") == sysconfig.get_path("purelib") + "/x"
    assert expand_placeholder("plain/x") == "plain/x"
    with pytest.raises(
        ValueError, match=r"unknown placeholder \{home\}; the placeholders are \{stdlib\}"
    ):
        check_pattern("{home}/x")
    with pytest.raises(ValueError, match="is only allowed at the start"):
        check_pattern("x/{stdlib}")
    with pytest.raises(ValueError, match="must not be empty"):
        check_pattern(" ")


def test_urls() -> None:
    assert is_url("s3://bucket/key")
    assert not is_url("file:///tmp/x")
    assert not is_url("/srv/x")
    assert not is_url("C:x")


def test_an_exclusion_prunes_only_folders_that_it_covers_whole() -> None:
    exclusion = Exclusion(("{stdlib}/site-packages/**", "**/test_*.py"))
    assert exclusion.holds("{stdlib}/site-packages/a/b.py")
    assert exclusion.holds("{stdlib}/x/test_a.py")
    assert exclusion.holds_folder("{stdlib}/site-packages")
    assert not exclusion.holds("{site-packages}/a/b.py")
    assert not exclusion.holds_folder("{stdlib}/x")


def test_a_trailing_slash_means_all_files_in_the_folder() -> None:
    pattern = parse_pattern("out/clean/")
    assert (pattern.prefix, pattern.rest, pattern.is_plain) == ("out/clean/", "**", False)
    assert pattern.regex.match("ab/cd.jsonl")
    # Strandline's own files in the folder do not match.
    assert not pattern.regex.match(".strandline-owner")
    assert parse_pattern("s3://bucket/clean/").base == "s3://bucket/clean"
