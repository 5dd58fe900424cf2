"""A manifest file becomes a plan, or each mistake gives a sentence with its position."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.run.manifest.manifest import read_manifest
from strandline.run.manifest.yaml_file import change, parse_documents
from strandline_api.documents.problems import SpecError

names = st.from_regex(r"[a-z]{1,5}", fullmatch=True)
trees = st.recursive(
    st.none() | st.integers(),
    lambda inner: st.dictionaries(names, inner, max_size=3) | st.lists(inner, max_size=3),
    max_leaves=8,
)


def refuse(text: str) -> str:
    with pytest.raises(SpecError) as caught:
        parse_documents(text, "p.yaml")
    return str(caught.value)


def test_a_yaml_mistake_is_one_sentence_with_line_and_column() -> None:
    assert refuse("a: 1\nb: [1,\nc: 2\n") == (
        "p.yaml: line 4, column 1: expected ',' or ']', but got '<stream end>' "
        "(while parsing a flow sequence that begins in line 2)"
    )
    assert refuse("a: 1\n\tb: 2\n").startswith("p.yaml: line 2, column 1: ")


def test_a_key_written_twice_is_refused_because_one_would_be_lost() -> None:
    text = "spec:\n  source: {use: files}\n  source: {use: jsonl-files}\n"
    assert refuse(text) == "p.yaml: line 3, column 3: 'source' is written twice"


def test_a_key_may_be_merged_and_then_written() -> None:
    text = "base: &base {a: 1}\nother:\n  <<: *base\n  b: 2\n"
    (document,) = parse_documents(text, "p.yaml")
    assert document["other"] == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "p.yaml: the file is empty; it must contain one CurationPipeline"),
        ("# nothing\n---\n", "p.yaml: the file is empty; it must contain one CurationPipeline"),
        ("a: b\x07c\n", "p.yaml: line 1, column 5: the character '\\x07' is not allowed in YAML"),
        ("[" * 5000, "p.yaml: the YAML is nested too deeply"),
        (
            "a: !!python/object/apply:os.getcwd []\n",
            "p.yaml: line 1, column 4: could not determine a constructor for the tag "
            "'tag:yaml.org,2002:python/object/apply:os.getcwd'",
        ),
        ("a: 2026-13-45\n", "p.yaml: not valid YAML: month must be in 1..12"),
    ],
)
def test_invalid_documents_are_refused(text: str, sentence: str) -> None:
    assert refuse(text) == sentence


def test_empty_documents_around_a_pipeline_are_ignored() -> None:
    assert parse_documents("---\na: 1\n---\n", "p.yaml") == [{"a": 1}]


def test_a_file_that_is_not_utf8_is_refused_and_a_byte_order_mark_is_not(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_bytes("a: caf\xe9".encode("latin-1"))
    with pytest.raises(SpecError, match="the byte 0xe9 at 6 is not UTF-8"):
        read_manifest(path)
    path.write_bytes(b"\xef\xbb\xbf")
    with pytest.raises(SpecError, match="empty"):
        read_manifest(path)


@pytest.mark.parametrize(
    ("setting", "changed"),
    [
        ("spec.a=5", {"spec": {"a": 5, "list": [{"x": 1}, 2]}}),
        ("a=five", {"spec": {"a": "five", "list": [{"x": 1}, 2]}}),
        ("a=", {"spec": {"a": None, "list": [{"x": 1}, 2]}}),
        ("a={b: [1]}", {"spec": {"a": {"b": [1]}, "list": [{"x": 1}, 2]}}),
        ("list.0.x=a=b", {"spec": {"a": 1, "list": [{"x": "a=b"}, 2]}}),
        ("list[1]=3", {"spec": {"a": 1, "list": [{"x": 1}, 3]}}),
        ("list[0].y.z=3", {"spec": {"a": 1, "list": [{"x": 1, "y": {"z": 3}}, 2]}}),
        ('["b.c"].d=1', {"spec": {"a": 1, "list": [{"x": 1}, 2], "b.c": {"d": 1}}}),
        ("metadata.name=n", {"spec": {"a": 1, "list": [{"x": 1}, 2]}, "metadata": {"name": "n"}}),
    ],
)
def test_a_setting_changes_one_place(setting: str, changed: dict[str, Any]) -> None:
    document = {"spec": {"a": 1, "list": [{"x": 1}, 2]}}
    assert change(document, setting) == changed
    assert document == {"spec": {"a": 1, "list": [{"x": 1}, 2]}}


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("a", "--set 'a' must be path=value"),
        ("=5", "--set '=5' must be path=value"),
        (".a=5", "--set '.a=5' must be path=value"),
        ("a..b=5", "--set 'a..b=5' must be path=value"),
        ("list[x]=5", "--set 'list[x]=5' must be path=value"),
        ("a=[", "--set 'a=[': the value is not valid YAML"),
        ("list.2=5", "spec.list: --set: unknown field '2'; the list has 2 entries"),
        ("list.x=5", "spec.list: --set: unknown field 'x'"),
        ("a.b=5", "spec.a: --set: unknown field 'b'; the value there is 1"),
    ],
)
def test_a_setting_without_form_or_place_is_refused(setting: str, sentence: str) -> None:
    with pytest.raises(SpecError) as caught:
        change({"spec": {"a": 1, "list": [1, 2]}}, setting)
    assert str(caught.value).startswith(sentence)


@given(document=st.dictionaries(names, trees, max_size=3), path=st.lists(names, min_size=1))
def test_law_a_setting_is_read_back_and_setting_it_again_changes_nothing(
    document: dict[str, Any], path: list[str]
) -> None:
    setting = f"spec.{'.'.join(path)}=17"
    try:
        changed = change({"spec": document}, setting)
    except SpecError:
        return
    found = changed["spec"]
    for part in path:
        found = found[part]
    assert found == 17
    assert change(changed, setting) == changed
    kept = {key: value for key, value in document.items() if key != path[0]}
    assert kept.items() <= changed["spec"].items()


def test_aliases_do_not_share_a_setting() -> None:
    (document,) = parse_documents("spec:\n  one: &same {a: 1}\n  two: *same\n", "p.yaml")
    assert change(document, "one.a=2") == {"spec": {"one": {"a": 2}, "two": {"a": 1}}}
