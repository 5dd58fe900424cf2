"""Sources on the Hugging Face Hub (`hf://`) by branch, tag, or commit. Only changes are read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cli_project import Project
from command_server import execute_strandline
from hub_server import Hub, Repo, serving

Run = Callable[[], dict[str, Any]]


def render(*texts: str) -> bytes:
    return b"".join(json.dumps({"text": text}).encode() + b"\n" for text in texts)


@pytest.fixture
def hub() -> Iterator[Hub]:
    """Yield a hub with a data set of two files."""
    with serving() as hub:
        repo = hub.repos["org/notes"] = Repo()
        files = {"data/train-0.jsonl": render("tide"), "data/train-1.jsonl": render("moon")}
        repo.tags["v1"] = repo.commit("main", {**files, "README.md": b"---\n---\n"}, "first")
        yield hub


@pytest.fixture
def run(hub: Hub, project: Project) -> Run:
    """Return a function that makes an attempt in a separate process and returns source counts."""

    def run() -> dict[str, Any]:
        environment = os.environ | {
            "HF_ENDPOINT": hub.url,
            "HF_HOME": str(project.path / "hf"),
            "HF_HUB_DISABLE_XET": "1",
        }
        words = ["run", "pipeline.yaml", "--engine", "inline", "--set", "retry.maxRetries=0"]
        done = execute_strandline(*words, "--json", env=environment)
        assert done.returncode == 0, done.stderr
        sources: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])["sources"]
        return sources

    return run


def use_source(project: Project, use: str, **params: Any) -> None:
    project.spec["source"] = {"use": use, "with": {**params, "onRemoved": "Delete"}}
    project.spec["stages"] = [{"use": "read-jsonl"}]
    project.save()


def read_texts(project: Project) -> list[str]:
    files = (project.folder / "output").rglob("*.jsonl")
    return sorted(
        json.loads(line)["text"] for file in files for line in file.read_text().splitlines()
    )


@pytest.mark.parametrize("revision", ["", "@main", "@v1"])
def test_files_are_listed_and_read_by_a_revision(
    revision: str, project: Project, run: Run, hub: Hub
) -> None:
    path = f"hf://datasets/org/notes{revision}/data/*.jsonl"
    use_source(project, "jsonl-files", paths=[path])
    assert run()["finished"] == 2
    assert read_texts(project) == ["moon", "tide"]


def test_a_file_of_another_commit_with_equal_size_is_read_again(
    project: Project, run: Run, hub: Hub
) -> None:
    use_source(project, "jsonl-files", paths=["hf://datasets/org/notes@main/data/*.jsonl"])
    run()
    repo = hub.repos["org/notes"]
    repo.commit("main", {**repo.head(), "data/train-1.jsonl": render("reef")}, "second")
    again = run()
    assert (again["finished"], again["skipped"]) == (1, 1)
    assert read_texts(project) == ["reef", "tide"]


def test_a_tag_keeps_its_commit(project: Project, run: Run, hub: Hub) -> None:
    use_source(project, "jsonl-files", paths=["hf://datasets/org/notes@v1/data/*.jsonl"])
    run()
    repo = hub.repos["org/notes"]
    repo.commit("main", {**repo.head(), "data/train-1.jsonl": render("reef")}, "second")
    again = run()
    assert (again["finished"], again["skipped"]) == (0, 2)


def test_a_data_set_is_read_by_its_card(project: Project, run: Run, hub: Hub) -> None:
    use_source(project, "dataset-folder", path="hf://datasets/org/notes@v1", splits=["train"])
    assert run()["finished"] == 2
    assert read_texts(project) == ["moon", "tide"]
