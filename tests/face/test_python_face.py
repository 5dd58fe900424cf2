"""The public names of `strandline`, and pipelines built in Python."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import strandline
import strandline_packs
from strandline import (
    ExitCode,
    FailedTask,
    NoneTask,
    Params,
    Pipeline,
    SinkStage,
    Source,
    SourceStage,
    Stage,
    Task,
    errors,
    register,
    stages,
    work,
)
from strandline.errors import LedgerError, SpecError, StrandlineError
from strandline.ledger.store.store import Store
from strandline.plan.stages.registry import find_stage, list_registered
from strandline.plan.stages.stage import Shape
from strandline.run.manifest.manifest import read_manifest
from strandline.storage.layout import PipelineFolder
from strandline_api.objects.removed_engine import ENGINE_REMOVED


class Numbers(SourceStage):
    """Lists numbers."""

    class Params(SourceStage.Params):
        """Number of sources."""

        count: int = 4

    params: Params

    def list_sources(self) -> Any:
        for number in range(self.params.count):
            yield Source(f"number {number}", "1", number)


class KeepEven(Stage):
    """Drops odd numbers."""

    def process(self, task: Task) -> Task | None:
        return None if task.data % 2 else task


class DoubleAll(Stage):
    """Doubles numbers in batches."""

    def process_batch(self, tasks: list[Task]) -> list[Task | NoneTask | FailedTask]:
        return [task.replace(task.data * 2) for task in tasks]


class Text(SinkStage):
    """Writes numbers as text."""

    class Params(SinkStage.Params):
        """Output folder."""

        path: str | None = None

    suffix = ".txt"

    def write(self, task: Task, file: Any) -> None:
        file.write(str(task.data).encode())


def read_output(path: Path) -> list[str]:
    return sorted(file.read_text() for file in path.rglob("*.txt"))


def build(**fields: Any) -> Pipeline:
    parts: dict[str, Any] = {
        "source": Numbers(),
        "stages": [KeepEven(), DoubleAll()],
        "sink": Text(),
    }
    return Pipeline("evens", **(parts | fields))


def test_every_public_name_exists_in_sorted_order() -> None:
    assert strandline.__all__ == sorted(strandline.__all__)
    for name in strandline.__all__:
        assert getattr(strandline, name) is not None
    assert set(strandline.__all__) <= set(dir(strandline))
    assert strandline.__version__ == "0.2.0"
    with pytest.raises(AttributeError, match="module 'strandline' has no attribute 'Nothing'"):
        _ = strandline.Nothing


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import strandline", ["strandline.", "pyarrow", "pydantic", "ray", "lmdb"]),
        (
            "from strandline import Stage, Task, register",
            ["strandline.cli", "strandline.run", "strandline.ledger", "ray", "lmdb", "click"],
        ),
        ("from strandline import Pipeline", ["strandline.cli", "ray.", "click", "rich"]),
    ],
)
def test_a_name_loads_only_what_it_needs(statement: str, absent: list[str]) -> None:
    code = f"{statement}\nimport sys, json\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = json.loads(done.stdout)
    assert "strandline" in loaded
    for name in ("strandline.plan", "strandline.plan.lazy_names"):  # these modules find the others
        loaded.remove(name)
    assert [name for name in loaded if name.startswith(tuple(absent))] == []


def test_a_pipeline_runs_and_resumes(tmp_path: Path) -> None:
    outcome = build().run(checkpoint_path=tmp_path, engine="inline")
    assert outcome.code is ExitCode.COMPLETE
    assert (outcome.standing.finished, outcome.standing.skipped) == (4, 0)
    assert read_output(tmp_path / "default/evens/output") == ["0", "4"]
    again = build().run(tmp_path, engine="inline")
    assert (again.standing.finished, again.standing.skipped) == (0, 4)
    assert again.attempt == 2


def test_without_a_checkpoint_the_sinks_path_is_used_and_nothing_is_tracked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = build(sink=Text(path="out")).run(engine="inline")
    assert outcome.code is ExitCode.COMPLETE
    assert read_output(tmp_path / "out") == ["0", "4"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    with pytest.raises(SpecError, match=r"spec\.sink\.with\.path: required because there is no"):
        build().run(engine="inline")


def test_a_failed_source_sets_the_exit_code_and_raises_no_error(tmp_path: Path) -> None:
    class FailOne(Stage):
        def process(self, task: Task) -> Any:
            return FailedTask("three") if task.data == 3 else task

    outcome = build(stages=[FailOne()]).run(tmp_path, engine="inline")
    assert outcome.code is ExitCode.SOURCES_FAILED
    assert outcome.standing.failed == 1


def test_a_changed_pipeline_is_rejected_by_default(tmp_path: Path) -> None:
    build().run(tmp_path, engine="inline")
    changed = build(stages=[KeepEven()])
    with pytest.raises(LedgerError, match="the pipeline is not the one") as caught:
        changed.run(tmp_path, engine="inline")
    assert "strandline run" not in str(caught.value)
    assert caught.value.__notes__ == ["for example: pipeline.run(..., on_change='Continue')"]
    outcome = changed.run(tmp_path, engine="inline", on_change="Restart")
    assert outcome.standing.finished == 4
    assert read_output(tmp_path / "default/evens/output") == ["0", "2"]


def test_wrong_arguments_of_run_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"one of ray, inline, processes, not"):
        build().run(tmp_path, engine="spark")
    with pytest.raises(ValueError, match=f"^{ENGINE_REMOVED}$"):
        build().run(tmp_path, engine="ray-data")
    with pytest.raises(ValueError, match="'Maybe' is not a valid OnChange"):
        build().run(tmp_path, engine="inline", on_change="Maybe")
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_path_is_no_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="s3://bucket: a volume is a folder on this machine"):
        build().run(checkpoint_path="s3://bucket", engine="inline")
    assert list(tmp_path.iterdir()) == []


def test_work_sets_the_options_of_a_stage() -> None:
    plan = work(
        DoubleAll(),
        name="twice",
        batch_size=8,
        workers=(2, 4),
        cpu=0.5,
        gpu=1,
        memory="2Gi",
        custom={"nvdec": 1},
        runtime_env={"env_vars": {"A": "b"}},
    )
    assert (plan.name, plan.shape, plan.batch_size) == ("twice", Shape.BATCH, 8)
    assert (plan.min_workers, plan.max_workers) == (2, 4)
    assert (plan.cpu, plan.gpu, plan.memory, plan.custom) == (0.5, 1.0, 2 << 30, {"nvdec": 1.0})
    assert plan.runtime_env == {"env_vars": {"A": "b"}}
    assert work(KeepEven(), group=3).shape is Shape.GROUP
    assert build(stages=[plan]).plan.stages[0] is plan


def test_names_come_from_the_registry_or_the_class() -> None:
    assert work(KeepEven()).name == "keep-even"
    assert work(KeepEven()).use == f"{__name__}:KeepEven"
    files = find_stage("files")
    plan = work(files(paths=["*.txt"]))
    assert (plan.name, plan.use) == ("files", "files")

    @register("face-test-stage")
    class Registered(KeepEven):
        """A stage with a registered name."""

    assert work(Registered()).name == "face-test-stage"


def fail_to_work(**fields: Any) -> str:
    with pytest.raises(SpecError) as caught:
        work(KeepEven(), **fields)
    return str(caught.value)


def test_work_rejects_values_that_a_manifest_rejects() -> None:
    assert fail_to_work(batch_size=0) == "KeepEven.batchSize: must be at least 1, not 0"
    assert fail_to_work(workers=(3, 2)).startswith("KeepEven.workers: 'max' must be at least 'min'")
    assert fail_to_work(name="No Label").startswith("KeepEven.name: must be lowercase letters")
    assert fail_to_work(memory="much").startswith("KeepEven.resources.memory: ")


def test_a_pipeline_that_could_not_run_is_refused_when_it_is_built() -> None:
    with pytest.raises(SpecError, match="the name 'keep-even' is used twice"):
        build(stages=[KeepEven(), KeepEven()])
    with pytest.raises(SpecError, match="'keep-even' is not a sink"):
        build(sink=KeepEven())
    with pytest.raises(SpecError, match=r"must be a stage, not KeepEven; write KeepEven\("):
        build(stages=[KeepEven])
    with pytest.raises(SpecError, match="must be a stage, not str"):
        build(stages=["keep-even"])
    with pytest.raises(SpecError, match="name: must be lowercase letters"):
        Pipeline("../out", source=Numbers(), sink=Text())
    with pytest.raises(SpecError, match="namespace: must be lowercase letters"):
        Pipeline("evens", source=Numbers(), sink=Text(), namespace="a/b")


def write_manifest(path: Path, on_change: str = "Fail") -> Path:
    (path / "in").mkdir(exist_ok=True)
    if not (path / "in/a.txt").exists():
        (path / "in/a.txt").write_text("a")
    file = path / "p.yaml"
    file.write_text(
        "apiVersion: strandline.dev/v1alpha1\n"
        "kind: CurationPipeline\n"
        "metadata: {name: notes}\n"
        "spec:\n"
        f"  source: {{use: files, with: {{paths: ['{path}/in/*.txt']}}}}\n"
        "  stages: [{use: read-files}, {use: parse-documents}]\n"
        "  sink: {use: jsonl}\n"
        f"  onChange: {on_change}\n"
    )
    return file


def test_yaml_and_python_make_one_pipeline_and_share_a_ledger(tmp_path: Path) -> None:
    file = write_manifest(tmp_path)
    uses = ("files", "read-files", "parse-documents", "jsonl")
    files, read, parse, jsonl = map(find_stage, uses)
    made = Pipeline(
        "notes",
        source=files(paths=[f"{tmp_path}/in/*.txt"]),
        stages=[read(), parse()],
        sink=jsonl(),
    )
    assert made.plan.fingerprint == read_manifest(file).plan.fingerprint
    assert Pipeline.from_file(file).run(tmp_path, engine="inline").standing.finished == 1
    assert made.run(tmp_path, engine="inline").standing.skipped == 1


def test_an_argument_overrides_the_on_change_of_a_manifest(tmp_path: Path) -> None:
    Pipeline.from_file(write_manifest(tmp_path)).run(tmp_path, engine="inline")
    file = write_manifest(tmp_path, on_change="Continue")
    file.write_text(file.read_text().replace("{use: read-files}", "{use: read-files, name: r}"))
    pipeline = Pipeline.from_file(file)
    with pytest.raises(LedgerError):
        pipeline.run(tmp_path, engine="inline", on_change="Fail")
    assert pipeline.run(tmp_path, engine="inline").standing.skipped == 1


def test_an_argument_overrides_the_engine_of_a_manifest(tmp_path: Path) -> None:
    file = write_manifest(tmp_path)
    text = file.read_text()
    file.write_text(f"{text}  engine: ray-data\n")
    with pytest.raises(SpecError, match=f"p.yaml:9: spec.engine: {ENGINE_REMOVED}$"):
        Pipeline.from_file(file)
    file.write_text(f"{text}  engine: ray\n")
    pipeline = Pipeline.from_file(file)
    assert (build().engine, pipeline.engine) == ("ray", "ray")
    pipeline.engine = "spark"
    with pytest.raises(ValueError, match="not 'spark'"):
        pipeline.run(tmp_path)
    assert pipeline.run(tmp_path, engine="inline").standing.finished == 1


def test_a_manifest_means_the_same_from_python(tmp_path: Path) -> None:
    file = write_manifest(tmp_path)
    (tmp_path / "in/b.txt").write_bytes(b"\xff")
    file.write_text(
        file.read_text().replace(
            "{use: parse-documents}",
            "{use: parse-documents, with: {badRows: fail, fallbackEncoding: null}}",
        )
        + "  quarantine: {after: 1, tolerate: 1}\n"
        + "  checkpoint: {sourceMetrics: true, gracePeriod: 7s}\n"
    )
    pipeline = Pipeline.from_file(file)
    assert pipeline.checkpoint.grace_period_seconds == 7

    outcome = pipeline.run(tmp_path, engine="inline")

    assert outcome.code is ExitCode.COMPLETE
    assert outcome.standing.quarantined == 1  # immediately, because one is tolerated
    store = Store(PipelineFolder.on_volume(tmp_path, "default", "notes").ledger, readonly=True)
    ((_, _, record),) = store.list_records()
    store.close()
    assert record.efforts  # recorded per source


def test_every_shipped_stage_is_at_its_documented_location() -> None:
    shipped = {
        cls.__name__: cls
        for cls in list_registered().values()
        if cls.__module__.startswith("strandline_packs.")
    }
    assert stages.__all__ == sorted(shipped)
    for name, cls in shipped.items():
        assert getattr(stages, name) is cls
    assert set(stages.__all__) <= set(dir(stages))
    with pytest.raises(AttributeError, match=r"'strandline\.stages' has no attribute 'Nothing'"):
        _ = stages.Nothing  # type: ignore[attr-defined]


# Errors that end a command but not a run.
OF_COMMANDS = {
    "BadTargetError",
    "RequirementsError",
    "TargetRefusedError",
    "UnfitForPushError",
    "NoEstimateError",
    "NoNeighboursError",
    "NoMeasuresError",
    "NoReasonsError",
    "MissingKeyError",
    "UnknownSideError",
    "UnreadableRowsError",
    "ChoiceError",
    "DrainError",
    "HeldClaimError",
    "JobNotStartedError",
    "KubectlError",
    "NoDriverError",
    "NoListError",
    "NotCopiedError",
    "NotOnClusterError",
    "NothingPublishedError",
    "ForeignConfigError",
    "NothingRunError",
    "RequestRefusedError",
    "RunNotEndedError",
    "TornReadingError",
    "UnknownAttemptError",
    "UnknownSourceError",
}


def list_errors(base: type[StrandlineError]) -> Iterator[type[StrandlineError]]:
    yield base
    for cls in base.__subclasses__():
        yield from list_errors(cls)


def test_every_error_that_may_end_a_run_can_be_caught_by_a_public_name() -> None:
    for package in (strandline, strandline_packs):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    known = {error.__name__: error for error in list_errors(StrandlineError)}
    known = {
        name: one
        for name, one in known.items()
        if one.__module__.startswith(("strandline.", "strandline_packs."))
    }
    public = {name: getattr(errors, name) for name in errors.__all__}
    assert public.keys() == (known.keys() - OF_COMMANDS) | {"SpecError"}
    assert all(public[name] is one for name, one in known.items() if name in public)
    assert set(errors.__all__) <= set(dir(errors))
    with pytest.raises(AttributeError, match=r"'strandline\.errors' has no attribute 'Nothing'"):
        _ = errors.Nothing


def test_every_documented_name_can_be_imported() -> None:
    page = (Path(__file__).parents[2] / "docs/python.md").read_text()
    places = page.partition("## A pipeline")[0]
    face = re.findall(r"`([A-Za-z_]+)`", places.partition("| `strandline` |")[2].partition("\n")[0])
    assert {*face, "__version__"} == set(strandline.__all__)
    named = re.findall(r"`([A-Z]\w+)`", places.partition("| `strandline.stages` |")[2])
    assert set(named) <= set(stages.__all__)


def test_parameters_refuse_unknown_names_and_are_spelled_in_camel_case() -> None:
    class Some(Params):
        min_words: int = 5

    assert Some.model_validate({"minWords": 2}).min_words == 2
    with pytest.raises(ValueError, match="Extra inputs are not permitted"):
        Some.model_validate({"minWord": 2})
