"""`strandline push` to a folder: a complete revision or none, `latest` last, and no repetition."""

from __future__ import annotations

import json
import os
import re
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from cli_project import Call, Project
from command_server import execute_strandline
from strandline_api.outcome.exit_codes import ExitCode


def push(call: Call, target: str = "out") -> dict[str, Any]:
    result = call("push", "pipeline.yaml", "--to", target, "--json")
    assert result.exit_code == 0, result.output
    content: dict[str, Any] = json.loads(result.stdout)
    return content


def read_latest(target: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((target / "latest.json").read_bytes())
    return content


def list_files(target: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(target)): path.read_bytes()
        for path in target.rglob("*")
        if path.is_file() and path.name != "README.md"  # the card has a timestamp
    }


def check_whole(target: Path) -> str:
    """Check that `latest` points to the files of its manifest, byte for byte."""
    latest = read_latest(target)
    manifest = json.loads((target / latest["manifest"]).read_bytes())
    folder = target / latest["revision"]
    for name, facts in manifest["files"].items():
        content = (folder / name).read_bytes()
        assert len(content) == facts["size"]
        assert blake2b(content, digest_size=16).hexdigest() == facts["digest"]
    names = {f"{latest['revision']}/{name}" for name in manifest["files"]}
    assert set(list_files(folder)) == {*manifest["files"], "strandline.json"}
    assert names <= list_files(target).keys()
    revision: str = latest["revision"]
    return revision


def test_a_data_set_is_pushed_whole_and_once(
    project: Project, run: Call, call: Call, tmp_path: Path
) -> None:
    run()
    first = push(call)
    assert (first["isNew"], first["files"]) == (True, 3)
    assert check_whole(tmp_path / "out") == first["revision"]
    before = list_files(tmp_path / "out")
    again = push(call)
    assert (again["isNew"], again["files"]) == (False, 0)
    assert list_files(tmp_path / "out") == before
    # The push used the ledger's lease and released it, so a run can take the lease.
    assert run().exit_code == 0
    assert push(call)["isNew"] is False


def test_a_revision_is_never_changed_by_the_next(
    project: Project, run: Call, call: Call, tmp_path: Path
) -> None:
    run()
    first = push(call)["revision"]
    before = {name: text for name, text in list_files(tmp_path / "out").items() if first in name}
    (project.path / "in/0.txt").write_text("Another note.\n")
    run()
    second = push(call)["revision"]
    assert first != second
    assert check_whole(tmp_path / "out") == second
    after = list_files(tmp_path / "out")
    assert {name: text for name, text in after.items() if first in name and "/" in name} == {
        name: text for name, text in before.items() if "/" in name
    }


def test_the_folder_of_a_revision_loads_by_its_card(
    project: Project, run: Call, call: Call, tmp_path: Path
) -> None:
    from datasets import load_dataset  # noqa: PLC0415 - heavy, and needed nowhere else

    run()
    pushed = push(call)
    rows = load_dataset(pushed["target"], cache_dir=str(tmp_path / "cache"), split="train")
    assert sorted(row["text"] for row in rows) == [f"Note number {n}.\n" for n in range(3)]


def refuse(call: Call, folder: Path, code: ExitCode, words: str) -> None:
    """Check that a push is refused and leaves no files for readers."""
    result = call("push", "pipeline.yaml", "--to", "out")
    assert result.exit_code == code
    assert words in result.stderr
    assert not (folder / "out").exists()


def test_an_incomplete_run_is_refused(
    project: Project, run: Call, call: Call, tmp_path: Path
) -> None:
    project.add_stage("def process(self, task):\n    raise ValueError('no')")
    run()
    words = "attempt 1 ended with SOURCES_FAILED"
    refuse(call, tmp_path, ExitCode.LEDGER_MISMATCH, words)


def test_a_run_that_misses_its_requirements_is_refused(
    project: Project, run: Call, call: Call, tmp_path: Path
) -> None:
    project.spec["publish"] = {"require": {"rows": {"min": 100}}}
    project.save()
    assert run().exit_code == ExitCode.REQUIREMENTS_NOT_MET
    refuse(call, tmp_path, ExitCode.REQUIREMENTS_NOT_MET, "at least 100 are required")


def test_a_damaged_file_is_never_published(
    project: Project, run: Call, call: Call, tmp_path: Path
) -> None:
    run()
    hurt = max((project.folder / "output").rglob("*.jsonl"))
    hurt.write_bytes(hurt.read_bytes()[:-2] + b"X\n")
    result = call("push", "pipeline.yaml", "--to", "out")
    assert result.exit_code == ExitCode.LEDGER_MISMATCH
    assert "changed since it was written" in result.stderr
    assert not (tmp_path / "out/latest.json").exists()


def test_the_data_set_is_not_pushed_into_itself(project: Project, run: Call, call: Call) -> None:
    run()
    result = call("push", "pipeline.yaml", "--to", "strandline-data/default/notes/output/x")
    assert result.exit_code == ExitCode.BAD_SPEC
    assert "this is the location of the data set itself" in result.stderr


@pytest.mark.parametrize("target", ["ftpx://host/a", "delta:ftpx://host/a", "s3x://bucket"])
def test_an_unknown_protocol_is_rejected_by_name(
    project: Project, run: Call, call: Call, target: str
) -> None:
    run()
    result = call("push", "pipeline.yaml", "--to", target)
    assert result.exit_code == ExitCode.BAD_SPEC
    assert re.search(r"unknown protocol (ftpx|s3x)://; did you mean (ftp|s3)://\?", result.stderr)


def test_a_volume_is_no_url(project: Project, call: Call, tmp_path: Path) -> None:
    result = call("run", "pipeline.yaml", "--volume", "s3://bucket/folder")
    assert result.exit_code == ExitCode.BAD_SPEC
    assert "a volume is a folder on this machine, not a URL" in result.stderr
    assert not list(tmp_path.glob("s3*"))


def test_without_a_run_there_is_nothing_to_push(project: Project, call: Call) -> None:
    result = call("push", "pipeline.yaml", "--to", "out")
    assert result.exit_code == ExitCode.LEDGER_MISMATCH, result.output


@pytest.mark.parametrize(
    "fault",
    ["push.copied:kill:2", "push.described:kill", "push.published:kill"],
)
def test_law_a_killed_push_can_be_repeated(
    fault: str, project: Project, run: Call, call: Call, tmp_path: Path
) -> None:
    run()
    push(call, "other")
    former = push(call, "out")["revision"]
    (project.path / "in/0.txt").write_text("Another note.\n")
    run()
    wanted = push(call, "other")["revision"]
    environment = os.environ | {"STRANDLINE_FAULT": fault}
    killed = execute_strandline("push", "pipeline.yaml", "--to", "out", env=environment)
    assert killed.returncode == -9
    # Readers find a complete revision, wherever the push was killed.
    assert check_whole(tmp_path / "out") in {former, wanted}
    finished = push(call, "out")
    assert finished["revision"] == check_whole(tmp_path / "out") == wanted
    assert list_files(tmp_path / "out") == list_files(tmp_path / "other")
    if fault.startswith("push.copied"):
        assert finished["files"] == 1  # the first file had been copied before the kill


def test_a_store_is_pushed_to_in_the_same_way(project: Project, run: Call, call: Call) -> None:
    import fsspec  # noqa: PLC0415 - the store of this process alone

    run()
    pushed = push(call, "memory://corpus")
    assert (pushed["isNew"], pushed["files"]) == (True, 3)
    store = fsspec.filesystem("memory")
    latest = json.loads(store.cat_file("/corpus/latest.json"))
    manifest = json.loads(store.cat_file(f"/corpus/{latest['manifest']}"))
    for name, facts in manifest["files"].items():
        content = store.cat_file(f"/corpus/{latest['revision']}/{name}")
        assert blake2b(content, digest_size=16).hexdigest() == facts["digest"]
    assert push(call, "memory://corpus")["isNew"] is False


def test_the_index_is_pushed_unchanged(
    project: Project, run: Call, call: Call, tmp_path: Path
) -> None:
    project.spec["sink"] = {"use": "mds"}
    project.save()
    run()
    index = project.folder / "output/index.json"
    written = index.read_bytes()
    revision = push(call)["revision"]
    assert (tmp_path / "out" / revision / "index.json").read_bytes() == written
    index.write_bytes(written + b" ")
    result = call("push", "pipeline.yaml", "--to", "other")
    assert result.exit_code != 0
    assert "index.json has changed since it was written; `verify` shows details" in result.stderr
    index.unlink()
    result = call("push", "pipeline.yaml", "--to", "other")
    assert "index.json is missing; run the pipeline again" in result.stderr
