"""`strandline ledger backup` and `restore`: a ledger is restored exactly, or not changed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from cli_project import Call, Project, read_errors
from strandline.ledger.records.entries import Change
from strandline.ledger.store.store import Store
from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.locks import find_process, hold_alone, read_boot_id


@pytest.fixture
def copied(project: Project, run: Call, call: Call) -> Project:
    """Return a project with three finished sources, and a copy of its ledger in `notes.mdb`."""
    assert run().exit_code == 0
    result = back_up(call)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("notes.mdb: ")
    return project


def back_up(call: Call, to: str = "notes.mdb") -> Result:
    return call("ledger", "backup", "pipeline.yaml", "--to", to)


def restore(call: Call, source: str = "notes.mdb", *words: str) -> Result:
    return call("ledger", "restore", "pipeline.yaml", "--from", source, *words)


def count_finished(call: Call) -> int:
    facts = json.loads(call("ledger", "stats", "pipeline.yaml", "--json").stdout)
    return int(facts["finished"])


def change_sources() -> None:
    """Add a source, edit a source, and remove a source."""
    Path("in/3.txt").write_text("Note number 3.\n")
    Path("in/0.txt").write_text("Other words than before.\n")
    Path("in/1.txt").unlink()


def test_only_work_after_the_copy_is_repeated(copied: Project, run: Call, call: Call) -> None:
    change_sources()
    assert run().exit_code == 0
    outputs, finished = copied.list_outputs(), count_finished(call)
    result = restore(call)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "restored as of attempt 1, with 3 finished sources",
        f"the replaced ledger is in {copied.folder}/ledger-replaced",
        "`strandline repair` finds outputs that have changed since",
    ]
    assert count_finished(call) == 3
    assert call("repair", "pipeline.yaml").exit_code == 0
    assert run().exit_code == 0
    assert call("verify", "pipeline.yaml").exit_code == 0
    assert (copied.list_outputs(), count_finished(call)) == (outputs, finished)


def test_a_number_of_an_attempt_is_not_given_a_second_time(
    copied: Project, run: Call, call: Call
) -> None:
    Path("in/3.txt").write_text("Note number 3.\n")
    assert run().exit_code == 0
    assert restore(call).exit_code == 0
    assert run().exit_code == 0
    facts = json.loads(call("ledger", "stats", "pipeline.yaml", "--json").stdout)
    assert (facts["attempt"], facts["finished"]) == (3, 4)


def test_a_restore_is_undone_with_the_ledger_that_was_replaced(
    copied: Project, run: Call, call: Call
) -> None:
    Path("in/3.txt").write_text("Note number 3.\n")
    assert run().exit_code == 0
    replaced = str(copied.folder / "ledger-replaced/data.mdb")
    for source, finished in (("notes.mdb", 3), (replaced, 4), (replaced, 3), ("notes.mdb", 3)):
        assert restore(call, source).exit_code == 0
        assert count_finished(call) == finished


def test_folders_are_replaced_if_the_file_system_cannot_exchange_them(
    copied: Project, run: Call, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("in/3.txt").write_text("Note number 3.\n")
    assert run().exit_code == 0
    monkeypatch.setattr("strandline.storage.layout._exchange", lambda *_: False)
    assert restore(call).exit_code == 0
    assert count_finished(call) == 3
    assert not PipelineFolder(copied.folder).restoring.exists()


@pytest.mark.parametrize("damage", ["cut", "noise", "empty", "missing", "volume"])
def test_a_lost_or_damaged_ledger_is_replaced(
    copied: Project, run: Call, call: Call, damage: str
) -> None:
    data = copied.folder / "ledger" / "data.mdb"
    if damage == "volume":
        shutil.rmtree(copied.path / "strandline-data")
    elif damage == "missing":
        shutil.rmtree(data.parent)
    else:
        content = data.read_bytes()
        data.write_bytes({"cut": content[:8192], "noise": b"\1" * 16384, "empty": b""}[damage])
    result = restore(call, "notes.mdb", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    is_kept = damage not in {"missing", "volume"}
    assert (found["attempt"], found["finished"], found["replaced"] is not None) == (1, 3, is_kept)
    assert call("repair", "pipeline.yaml").exit_code == 0
    assert run().exit_code == 0
    assert call("verify", "pipeline.yaml").exit_code == 0


def test_a_ledger_copied_during_an_attempt_can_be_taken_over(
    copied: Project, run: Call, call: Call
) -> None:
    write_lease(copied, pid=2**22 + 1, started=1)
    assert back_up(call).exit_code == 0
    shutil.rmtree(copied.folder / "ledger")
    assert restore(call).exit_code == 0
    assert run().exit_code == 0
    assert count_finished(call) == 3


def test_outputs_elsewhere_belong_to_the_restored_ledger_again(
    project: Project, run: Call, call: Call
) -> None:
    project.spec["sink"]["with"] = {"path": "out"}
    project.save()
    assert run().exit_code == 0
    assert back_up(call).exit_code == 0
    before = {path: path.read_bytes() for path in Path("out").rglob("*.jsonl")}
    shutil.rmtree(project.path / "strandline-data")
    assert run().exit_code == 64  # the outputs belong to the deleted ledger
    assert restore(call).exit_code == 0
    assert run().exit_code == 0
    assert call("verify", "pipeline.yaml").exit_code == 0
    assert {path: path.read_bytes() for path in Path("out").rglob("*.jsonl")} == before


def spoil(kind: str, content: bytes) -> bytes:
    # For "page", destroy a page in the middle, which changes neither the first bytes nor the size.
    middle = len(content) // 2 // 4096 * 4096
    return {
        "cut": content[: len(content) // 2],
        "noise": b"\0" * 16384,
        "empty": b"",
        "page": content[:middle] + b"\xff" * 4096 + content[middle + 4096 :],
    }[kind]


@pytest.mark.parametrize("kind", ["cut", "noise", "empty"])
def test_a_damaged_copy_replaces_nothing(copied: Project, call: Call, kind: str) -> None:
    Path("bad.mdb").write_bytes(spoil(kind, Path("notes.mdb").read_bytes()))
    result = restore(call, "bad.mdb")
    assert (result.exit_code, result.stdout) == (65, "")
    assert read_errors(result).startswith("nothing was restored because the copy can't be read: ")
    assert count_finished(call) == 3
    assert not PipelineFolder(copied.folder).restoring.exists()
    assert not PipelineFolder(copied.folder).replaced.exists()


def test_a_copy_with_a_damaged_page_replaces_nothing(copied: Project, call: Call) -> None:
    """LMDB may crash on a damaged page, so the command runs in a separate process."""
    Path("bad.mdb").write_bytes(spoil("page", Path("notes.mdb").read_bytes()))
    done = copied.execute("ledger restore", "--from", "bad.mdb")
    assert (done.returncode, done.stdout) == (65, "")
    assert "can't be read" in done.stderr
    assert count_finished(call) == 3
    assert not PipelineFolder(copied.folder).replaced.exists()


def test_a_copy_of_another_pipeline_replaces_nothing(copied: Project, call: Call) -> None:
    copied.document["metadata"]["name"] = "others"
    copied.save()
    result = restore(call)
    assert result.exit_code == 65
    assert read_errors(result) == (
        "nothing was restored: the copy contains the ledger of default/notes, not of default/others"
    )
    assert not (copied.path / "strandline-data/default/others/ledger").exists()


def write_lease(project: Project, **holder: int) -> None:
    """Write a lease whose driver has not ended."""
    store = Store(project.folder / "ledger")
    lease: dict[str, Any] = store.read_meta("lease")
    lease |= {"ended": False, "boot": read_boot_id()} | holder
    store.write(Change(meta={"lease": lease}))
    store.close()


def test_nothing_is_restored_under_a_driver(copied: Project, call: Call) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as driver:
        found = find_process(driver.pid)
        assert found is not None
        write_lease(copied, pid=found.pid, started=found.started)
        result = restore(call)
        driver.kill()
    assert (result.exit_code, result.stdout) == (69, "")
    assert read_errors(result) == (
        f"attempt 1 is still running as process {driver.pid}; stop it first"
    )
    assert not PipelineFolder(copied.folder).replaced.exists()
    assert restore(call).exit_code == 0


def test_nothing_is_restored_between_attempts_of_a_run(copied: Project, call: Call) -> None:
    with hold_alone(PipelineFolder(copied.folder).run_lock):
        result = restore(call)
    assert (result.exit_code, "is already running this pipeline" in read_errors(result)) == (
        69,
        True,
    )
    assert not PipelineFolder(copied.folder).replaced.exists()


def test_a_copy_travels_through_pipes(copied: Project, call: Call) -> None:
    with Path("piped.mdb").open("wb") as file:
        done = copied.start("ledger backup", "--to", "-", stdout=file)
        assert (done.communicate(timeout=60)[1], done.returncode) == ("", 0)
    shutil.rmtree(copied.folder / "ledger")
    with Path("piped.mdb").open("rb") as file:
        done = copied.start("ledger restore", "--from", "-", stdin=file)
        assert (done.communicate(timeout=60)[1], done.returncode) == ("", 0)
    assert count_finished(call) == 3


@pytest.mark.parametrize("to", ["data.mdb", "copy.mdb", "../ledger/data.mdb"])
def test_a_copy_never_overwrites_the_ledger(copied: Project, call: Call, to: str) -> None:
    data = copied.folder / "ledger" / "data.mdb"
    inode = data.stat().st_ino
    result = back_up(call, str(data.parent / to))
    assert (result.exit_code, "in the ledger's own folder" in read_errors(result)) == (64, True)
    assert data.stat().st_ino == inode


def test_only_a_ledger_is_copied(project: Project, call: Call) -> None:
    result = back_up(call)
    assert result.exit_code == 65
    assert "there is no ledger here" in read_errors(result)
    assert not Path("notes.mdb").exists()


def test_a_failed_copy_leaves_the_former_copy(copied: Project, call: Call) -> None:
    before = Path("notes.mdb").read_bytes()
    (copied.folder / "ledger" / "data.mdb").write_bytes(b"\1" * 16384)
    assert back_up(call).exit_code == 65
    result = back_up(call, "nowhere/notes.mdb")
    assert result.exit_code in {65, 73}
    assert Path("notes.mdb").read_bytes() == before
    assert [path.name for path in Path().glob("*.mdb*")] == ["notes.mdb"]
    assert not list(Path().glob(".notes*"))
