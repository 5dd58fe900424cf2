"""Laws of the Dockerfile: the tag's hash covers all copied files, and pods can run the images."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from images.names import BASE, CONTEXT, TARGETS
from strandline_operator.model.limits import POD_SECURITY

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COPIED = re.compile(r"^COPY (?!--from)(.+) \S+$", re.MULTILINE)


def list_copied(text: str) -> set[str]:
    return {word for line in COPIED.findall(text) for word in line.split()}


def find_uncovered(copied: set[str], context: tuple[str, ...]) -> set[str]:
    return {name for name in copied if not any(Path(name).is_relative_to(c) for c in context)}


def read_stages(text: str) -> dict[str, str]:
    """Return the text of each stage, including its base stages."""
    parts = re.split(r"^FROM (\S+) AS (\S+)$", text, flags=re.MULTILINE)
    stages: dict[str, str] = {}
    for parent, name, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        stages[name] = stages.get(parent, "") + body
    return stages


USER = POD_SECURITY.run_as_user
STAGES = read_stages(DOCKERFILE)


def test_the_guards_see_a_planted_fault() -> None:
    assert find_uncovered(list_copied("COPY a/b bench/x /build/\n"), ("a",)) == {"bench/x"}
    assert read_stages("FROM x AS a\n1\nFROM a AS b\n2\n") == {"a": "\n1\n", "b": "\n1\n\n2\n"}


def test_copied_files_are_part_of_the_tag() -> None:
    assert find_uncovered(list_copied(DOCKERFILE), CONTEXT) == set()


def test_only_copied_files_are_part_of_the_tag() -> None:
    copied = {Path(name) for name in list_copied(DOCKERFILE)}

    assert [c for c in CONTEXT if not any(name.is_relative_to(c) for name in copied)] == []


def test_the_build_context_contains_only_copied_files() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()

    assert "*" in lines
    assert {line[1:] for line in lines if line.startswith("!")} == set(CONTEXT)


def test_the_base_is_an_argument_with_the_documented_default() -> None:
    assert f"\nARG BASE={BASE}\n" in DOCKERFILE
    assert "\nFROM ${BASE} AS base\n" in DOCKERFILE


@pytest.mark.parametrize("target", TARGETS)
def test_it_runs_as_the_user_that_pods_ask_for(target: str) -> None:
    assert f"\nUSER {USER}:{USER}\n" in STAGES[target]
    assert f"x:{USER}:{USER}:" in STAGES[target]


@pytest.mark.parametrize("target", TARGETS)
def test_the_image_writes_only_to_tmp(target: str) -> None:
    assert "HOME=/tmp" in STAGES[target]
    assert "PYTHONDONTWRITEBYTECODE=1" in STAGES[target]


@pytest.mark.parametrize("target", TARGETS)
def test_no_secret_is_read_where_a_layer_of_the_image_is_made(target: str) -> None:
    assert "--mount" not in STAGES[target]
    assert "--mount=type=secret" in STAGES[f"{target}-libraries"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("label", ["title", "version", "revision", "source", "licenses"])
def test_the_image_has_descriptive_labels(target: str, label: str) -> None:
    assert f"org.opencontainers.image.{label}=" in STAGES[target]


def test_only_the_operator_image_has_an_entrypoint() -> None:
    assert '\nENTRYPOINT ["strandline-operator"]\n' in STAGES["operator"]
    assert "\nENTRYPOINT []\n" in STAGES["runtime"]


def test_only_one_line_names_a_registry() -> None:
    assert re.findall(r"\b[\w-]+\.(?:io|org|com)/", DOCKERFILE) == ["docker.io/"]
