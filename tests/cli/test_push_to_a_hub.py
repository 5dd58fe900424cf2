"""`strandline push` to the Hugging Face Hub, with the real client and a local server."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli_project import Call, Project
from command_server import execute_strandline
from hub_server import Fault, Hub, Repo, serving

pytestmark = pytest.mark.first(reason="clients of the hub load in each process")

TARGET = "hf://datasets/org/notes"
Push = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def hub() -> Iterator[Hub]:
    """Yield a hub."""
    with serving() as hub:
        yield hub


@pytest.fixture
def push(hub: Hub, project: Project) -> Push:
    """Return a function that pushes in a new process: the client reads settings on import."""

    def push(target: str = TARGET, fault: str = "") -> subprocess.CompletedProcess[str]:
        environment = os.environ | {
            "HF_ENDPOINT": hub.url,
            "HF_HOME": str(project.path / "hf"),
            "HF_HUB_DISABLE_XET": "1",
            "HF_TOKEN": "token",
            "STRANDLINE_FAULT": fault,
        }
        words = ["push", "pipeline.yaml", "--to", target, "--json"]
        return execute_strandline(*words, env=environment)

    return push


def read(pushed: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert pushed.returncode == 0, pushed.stderr
    content: dict[str, Any] = json.loads(pushed.stdout)
    return content


def find_repo(hub: Hub) -> Repo:
    return hub.repos["org/notes"]


def check_head(hub: Hub, project: Project, branch: str = "main") -> None:
    """Check that the head has exactly the files that count, the card, and the manifest."""
    files = dict(find_repo(hub).head(branch))
    outputs = project.folder / "output"
    names = [line.split("\t")[0] for line in (outputs / "_manifest").read_text().splitlines()]
    assert files.keys() == {*names, "README.md", "strandline.json", ".gitattributes"}
    assert all(files[name] == (outputs / name).read_bytes() for name in names)


def count_commits(hub: Hub) -> int:
    """Count the commits except the hub's first commit."""
    return len(find_repo(hub).commits) - 1


def test_one_commit_has_all_files_and_a_tag(
    project: Project, run: Call, hub: Hub, push: Push
) -> None:
    run()
    pushed = read(push())
    assert (pushed["target"], pushed["isNew"], pushed["files"]) == (f"{TARGET}@main", True, 3)
    repo = find_repo(hub)
    assert repo.is_private
    check_head(hub, project)
    assert repo.tags == {f"strandline-{pushed['revision'][:16]}": repo.branches["main"]}
    assert count_commits(hub) == 1
    head = repo.branches["main"]
    assert repo.titles[head] == f"strandline {pushed['revision']}"
    assert "strandline.fingerprint: " in repo.texts[head]


def test_an_existing_revision_is_not_pushed_again(
    project: Project, run: Call, hub: Hub, push: Push
) -> None:
    run()
    read(push())
    hub.calls.clear()
    assert read(push())["isNew"] is False
    assert (count_commits(hub), hub.count("preupload"), hub.count("lfs")) == (1, 0, 0)


def test_the_next_revision_replaces_and_removes(
    project: Project, run: Call, hub: Hub, push: Push
) -> None:
    project.spec["source"]["with"]["onRemoved"] = "Delete"
    project.save()
    run()
    read(push())
    find_repo(hub).head()["notes.txt"] = b"somebody's own"
    (project.path / "in/0.txt").unlink()
    (project.path / "in/1.txt").write_text("Another note.\n")
    run()
    assert read(push())["isNew"] is True
    assert find_repo(hub).head().pop("notes.txt") == b"somebody's own"
    check_head(hub, project)
    assert (count_commits(hub), len(find_repo(hub).tags)) == (2, 2)


def test_a_repeated_revision_moves_the_branch(
    project: Project, run: Call, hub: Hub, push: Push
) -> None:
    """An existing tag does not prove that the branch has the tagged revision."""
    note = project.path / "in/1.txt"
    first, time = note.read_text(), note.stat().st_mtime_ns
    for text, at in ((first, time), ("Another note.\n", time + 1), (first, time)):
        note.write_text(text)
        os.utime(note, ns=(at, at))
        run()
        assert read(push())["isNew"] is True
        check_head(hub, project)
    assert (count_commits(hub), len(find_repo(hub).tags)) == (3, 2)
    assert read(push())["isNew"] is False


@pytest.mark.parametrize("change", [lambda _: None, lambda content: content + b"more"])
def test_a_manually_changed_file_is_pushed_again(
    project: Project, run: Call, hub: Hub, push: Push, change: Callable[[bytes], bytes | None]
) -> None:
    run()
    read(push())
    files = find_repo(hub).head()
    name = next(name for name in files if name.endswith(".jsonl"))
    changed = change(files.pop(name))
    if changed is not None:
        files[name] = changed
    assert read(push())["isNew"] is True
    check_head(hub, project)


def test_a_named_branch_is_created(project: Project, run: Call, hub: Hub, push: Push) -> None:
    run()
    assert read(push(f"{TARGET}@trial"))["target"] == f"{TARGET}@trial"
    check_head(hub, project, "trial")
    assert find_repo(hub).head().keys() == {".gitattributes"}


@pytest.mark.parametrize(
    "path", ["create", "refs", "preupload", "batch", "PUT /lfs/", "commit", "tag"]
)
def test_requests_to_a_busy_hub_are_retried(
    path: str, project: Project, run: Call, hub: Hub, push: Push
) -> None:
    run()
    hub.faults.append(Fault(path, "busy", 2))
    assert read(push())["isNew"] is True
    check_head(hub, project)
    assert (count_commits(hub), len(find_repo(hub).tags)) == (1, 1)


def test_a_refused_upload_is_reported(project: Project, run: Call, hub: Hub, push: Push) -> None:
    run()
    hub.faults.append(Fault("PUT /lfs/", "403", 9))
    refused = push()
    assert refused.returncode == 73
    assert "the hub denies access (403)" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert count_commits(hub) == 0


@pytest.mark.parametrize("path", ["commit", "tag"])
@pytest.mark.parametrize("kind", ["lost", "reset", "failed"])
def test_law_a_commit_without_an_answer_is_never_repeated(
    path: str, kind: str, project: Project, run: Call, hub: Hub, push: Push
) -> None:
    run()
    hub.faults.append(Fault(path, kind))
    assert read(push())["isNew"] is True
    check_head(hub, project)
    assert (count_commits(hub), len(find_repo(hub).tags)) == (1, 1)


@pytest.mark.parametrize("step", ["push.uploaded", "push.committed", "push.tagged"])
def test_law_a_killed_push_can_be_repeated(
    step: str, project: Project, run: Call, hub: Hub, push: Push
) -> None:
    run()
    assert push(fault=f"{step}:kill").returncode == -9
    hub.calls.clear()
    assert read(push())["isNew"] is (step != "push.tagged")
    check_head(hub, project)
    assert (count_commits(hub), len(find_repo(hub).tags)) == (1, 1)
    assert hub.count("PUT /lfs/") == 0  # the files were uploaded before


def test_an_interleaved_commit_of_another_user_stays(
    project: Project, run: Call, hub: Hub, push: Push
) -> None:
    run()
    push(fault="push.uploaded:kill")
    repo = find_repo(hub)
    repo.commit("main", {**repo.head(), ".gitattributes": b"other"}, "somebody's")
    read(push())
    assert repo.head()[".gitattributes"] == b"other"
    check_head(hub, project)


def test_a_token_without_write_access_is_reported(
    project: Project, run: Call, hub: Hub, push: Push
) -> None:
    run()
    hub.faults.append(Fault("create", "403", 9))
    refused = push()
    assert refused.returncode == 73
    assert "the hub denies access (403); set HF_TOKEN" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_target_without_a_name_is_reported(project: Project, run: Call, push: Push) -> None:
    run()
    refused = push("hf://org/notes")
    assert refused.returncode == 64
    assert "write hf://datasets/ORG/NAME[@branch]" in refused.stderr


def test_a_damaged_file_is_not_committed(project: Project, run: Call, hub: Hub, push: Push) -> None:
    run()
    hurt: Path = next((project.folder / "output").rglob("*.jsonl"))
    hurt.write_bytes(hurt.read_bytes()[:-2] + b"X\n")
    assert push().returncode == 65
    assert count_commits(hub) == 0
