"""With `publish.to`, a complete run pushes its files under its own lease."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import huggingface_hub.constants as hub_settings
import pyarrow.parquet as pq
import pytest

from cli_project import Call, Project
from hub_server import Fault, serving
from own_hub import OwnHub
from own_tables import OwnDelta, OwnIceberg, OwnLance
from strandline import Pipeline
from strandline.data.tables.formats import iceberg
from strandline.ledger.errors import LedgerError
from strandline.ledger.store.store import Store
from strandline.storage import faults
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.spec.publishing import Publishing
from table_trials import CHANGED, change_notes, push, use_parquet

pytestmark = pytest.mark.first(reason="clients of hubs and tables load in each process")

NOTES = [f"Note number {n}.\n" for n in range(3)]


class Target(Protocol):
    """A target that a run publishes to."""

    target: str

    def read_texts(self) -> list[str]: ...
    def count_commits(self) -> int: ...


class OwnFolder:
    target = "published"

    def __init__(self, folder: Path) -> None:
        self._path = folder / "published"

    def read_texts(self) -> list[str]:
        revision = json.loads((self._path / "latest.json").read_bytes())["revision"]
        files = (self._path / revision).rglob("*.parquet")
        return sorted(pq.ParquetFile(file).read()["text"][0].as_py() for file in files)

    def count_commits(self) -> int:
        if not (self._path / "latest.json").exists():
            return 0
        return len(list(self._path.glob("*/strandline.json")))


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[OwnHub]:
    """Yield a hub without any data set."""
    with serving() as hub:
        yield OwnHub(tmp_path, hub)


@pytest.fixture(params=[OwnFolder, OwnDelta, OwnIceberg, OwnLance, OwnHub])
def target(
    project: Project,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> Target:
    """Return a target that does not exist yet. The pipeline names the target."""
    is_hub = request.param is OwnHub
    made: Target = request.getfixturevalue("hub") if is_hub else request.param(tmp_path)
    choose_target(project, made, monkeypatch)
    return made


def choose_target(project: Project, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    use_parquet(project)
    for name, value in getattr(target, "variables", {}).items():
        monkeypatch.setenv(name, value)
    name_target(project, target.target)


def name_target(project: Project, target: str) -> None:
    project.spec.update(publish={"to": target}, retry={"delay": "0s"})
    project.save()


def run_apart(project: Project) -> str:
    done = project.execute("run", "--engine", "inline")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_run_commits_once_for_each_revision(project: Project, target: Target) -> None:
    assert "revision " in run_apart(project)
    assert (target.read_texts(), target.count_commits()) == (NOTES, 1)
    run_apart(project)
    assert target.count_commits() == 1
    change_notes(project)
    run_apart(project)
    assert (target.read_texts(), target.count_commits()) == (CHANGED, 2)


def test_a_trial_with_another_volume_replaces_nothing(project: Project, target: Target) -> None:
    run_apart(project)
    (project.path / "in/2.txt").unlink()
    words = ("--engine", "inline", "--volume", "trial")
    trial = project.execute("run", *words)
    assert trial.returncode == ExitCode.VOLUME_UNUSABLE
    assert "another ledger of this pipeline, " in trial.stderr
    assert "--take-over" in trial.stderr
    assert (target.read_texts(), target.count_commits()) == (NOTES, 1)

    # Follow the advice of the message about the missing ledger.
    assert project.execute("run", *words, "--set", "publish=null").returncode == 0
    push = ("push", "--to", target.target, "--volume", "trial")
    assert project.execute(*push).returncode == ExitCode.VOLUME_UNUSABLE
    assert project.execute(*push, "--take-over").returncode == 0
    assert (target.read_texts(), target.count_commits()) == (NOTES[:2], 2)
    assert project.execute("run", *words).returncode == 0


def test_a_pipeline_replaces_nothing_of_another(project: Project, target: Target) -> None:
    run_apart(project)
    project.document["metadata"]["name"] = "others"
    project.save()
    other = project.execute("run", "--engine", "inline")
    assert other.returncode == ExitCode.VOLUME_UNUSABLE
    assert "the pipeline default/notes has written this " in other.stderr
    assert (target.read_texts(), target.count_commits()) == (NOTES, 1)


# Crash before the first file, between files and commit, and between the commit and its record.
STEPS = ["latest.synced", "push.uploaded", "push.committed"]
OF_FOLDERS = {"push.uploaded": "push.described", "push.committed": "push.published"}


@pytest.mark.parametrize("step", STEPS)
def test_law_a_run_killed_while_publishing_makes_one_commit(
    step: str,
    project: Project,
    target: Target,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    armed = OF_FOLDERS.get(step, step) if isinstance(target, OwnFolder) else step
    monkeypatch.setenv("STRANDLINE_FAULT", f"{armed}:kill")
    monkeypatch.setenv("STRANDLINE_FAULT_LOG", str(tmp_path / "fault.log"))
    run_apart(project)  # a second attempt continues the push
    assert (tmp_path / "fault.log").exists()
    assert (target.read_texts(), target.count_commits()) == (NOTES, 1)
    run_apart(project)
    assert target.count_commits() == 1
    if isinstance(target, OwnHub):
        check_hub(target)


def check_hub(target: OwnHub) -> None:
    """Check that all rows are in one commit with one tag, and that no file was uploaded twice."""
    assert (target.read_texts(), target.count_commits()) == (NOTES, 1)
    (tag,) = target.repo.tags.values()
    assert tag == target.repo.branches["main"]
    assert target.hub.count("PUT /lfs/") == len(NOTES)


def test_law_a_run_killed_after_the_tag_makes_no_second_commit(
    project: Project, hub: OwnHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_target(project, hub, monkeypatch)
    monkeypatch.setenv("STRANDLINE_FAULT", "push.tagged:kill")
    monkeypatch.setenv("STRANDLINE_FAULT_LOG", str(tmp_path / "fault.log"))
    run_apart(project)
    assert (tmp_path / "fault.log").exists()
    check_hub(hub)


@pytest.mark.more
@pytest.mark.parametrize("kind", ["lost", "reset", "failed", "busy"])
@pytest.mark.parametrize("path", ["/commit/", "/tag/"])
def test_law_a_run_without_an_answer_to_its_commit_makes_no_second_commit(
    path: str, kind: str, project: Project, hub: OwnHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub may have executed the request although it sent no usable answer."""
    choose_target(project, hub, monkeypatch)
    hub.hub.faults.append(Fault(path, kind))
    run_apart(project)
    assert hub.hub.faults[0].times == 0
    check_hub(hub)
    run_apart(project)
    check_hub(hub)


# The hub's client uses a deprecated parameter of its HTTP library.
@pytest.mark.filterwarnings("ignore:Use 'content:DeprecationWarning")
def test_law_an_attempt_without_its_lease_makes_no_commit(
    project: Project, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another attempt has taken the ledger over while the files were copied."""
    reached: set[str] = set()

    def lose(_: Store) -> None:
        if reached & {"push.uploaded", "push.described"}:
            raise LedgerError("another attempt has taken over")

    monkeypatch.setattr(faults, "reach", reached.add)
    monkeypatch.setattr(Store, "require_lease", lose)
    if isinstance(target, OwnIceberg):  # pyiceberg reads the variables on import
        monkeypatch.setattr(iceberg, "load_catalog", lambda _: target.open_catalog())
    if isinstance(target, OwnHub):
        monkeypatch.setattr(hub_settings, "ENDPOINT", target.hub.url)
        monkeypatch.setattr(hub_settings, "HF_HUB_DISABLE_XET", True)
    pipeline = Pipeline.from_file("pipeline.yaml")
    with pytest.raises(LedgerError, match="taken over"):
        pipeline.run("strandline-data", engine="inline")
    assert target.count_commits() == 0


def test_a_run_that_misses_its_requirements_pushes_nothing(
    project: Project, run: Call, tmp_path: Path
) -> None:
    project.spec["publish"] = {"to": "published", "require": {"rows": {"min": 100}}}
    project.save()
    assert run().exit_code == ExitCode.REQUIREMENTS_NOT_MET
    assert not (tmp_path / "published").exists()


def test_an_incomplete_run_pushes_nothing(project: Project, run: Call, tmp_path: Path) -> None:
    name_target(project, "published")
    project.add_stage("def process(self, task):\n    raise ValueError('no')")
    assert run().exit_code == ExitCode.SOURCES_FAILED
    assert not (tmp_path / "published").exists()


def test_a_target_inside_of_the_data_set_is_refused_before_any_work(
    project: Project, run: Call
) -> None:
    name_target(project, "strandline-data/default/notes/output/x")
    result = run()
    assert result.exit_code == ExitCode.BAD_SPEC
    assert "this is the location of the data set itself" in result.stderr
    assert not project.folder.exists()


def test_a_push_recognizes_a_revision_published_by_the_run(
    project: Project, run: Call, call: Call, tmp_path: Path
) -> None:
    name_target(project, "published")
    run()
    assert "README.md" in {path.name for path in (tmp_path / "published").rglob("*")}
    assert push(call, "published")["isNew"] is False


def test_a_pipeline_in_python_pushes_too(project: Project, tmp_path: Path) -> None:
    pipeline = Pipeline.from_file("pipeline.yaml")
    pipeline.publishing = Publishing(to="published")
    assert pipeline.run("strandline-data", engine="inline").code == 0
    assert (tmp_path / "published/latest.json").exists()
