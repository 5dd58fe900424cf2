"""Scenarios of the conformance suite. Each returns its attempts by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import engine_stages
import odd_stages
import streaming_stages
from conformance import REFERENCE, Scenario, StoredRun, Workspace
from conformance_stages import (
    Casualties,
    ChangeArray,
    CutNumbers,
    FillArray,
    Halve,
    ListedFiles,
    MakeRow,
    Pair,
    RejectSeventy,
    RejectThrees,
    Thrice,
    Widen,
)
from gather_stages import LARGE, KeyList, LineMoments
from shell_streams import own_stdout
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import check_plan
from strandline.python.pipeline import Pipeline, work
from strandline.run.manifest.manifest import read_manifest
from strandline.stages import JsonlSink, ParquetSink
from strandline_api.spec.policy import Checkpoint, Quarantine

# The numbers in each file. Tasks have ten rows, so the last file becomes 60 tasks.
FILES = {
    "empty.json": [],
    "short.json": [3, 4, 13],
    "threes.json": [3, 13, 23],
    "middle.json": list(range(30, 130)),
    "long.json": list(range(1000, 1600)),
}
BROKEN, MISSING = "broken.json", "missing.json"
EXAMPLES = Path(__file__).parents[2] / "pipelines" / "examples"
PIECES = 12
STOPPED_SOURCES, WAITING = 2000, 20
PIECE_SOURCES = 3


def rows(workspace: Workspace) -> Mapping[str, StoredRun]:
    """Run a plan over tables: fan-outs, groups, dead letters, artifacts, and failed sources.

    The attempt `first` writes everything; `again` finds no work except the failed sources.
    """
    volume = workspace.folder / "volume"
    plan = plan_rows(write_files(workspace.shared))
    settings: dict[str, Any] = {"checkpoint": Checkpoint(interval="100ms", source_metrics=True)}
    first = workspace.run(plan, volume, **settings)
    return {"first": first, "again": workspace.run(plan, volume, **settings)}


def rows_apart(workspace: Workspace) -> Mapping[str, StoredRun]:
    """Run the plan of `rows` without a ledger, with separate workers for each stage."""
    inputs = write_files(workspace.shared)
    plan = plan_rows(inputs, workspace.folder / "output", isolate=True)
    return {"first": workspace.run(plan, None)}


def payloads(workspace: Workspace) -> Mapping[str, StoredRun]:
    """Run a plan over Python payloads without a ledger: groups with `join`, arrays, and `meta`."""
    return {"first": workspace.run(plan_payloads(workspace.folder / "output"), None)}


def payloads_apart(workspace: Workspace) -> Mapping[str, StoredRun]:
    """Run the plan of `payloads`, with separate workers for each stage."""
    plan = plan_payloads(workspace.folder / "output", isolate=True)
    return {"first": workspace.run(plan, None)}


def odd(workspace: Workspace) -> Mapping[str, StoredRun]:
    """Run sources that fail in unusual ways, with a healthy source after each."""
    stages = [
        StagePlan("odd", "odd", odd_stages.Odd(), cpu=0.1),
        StagePlan("printing", "odd", odd_stages.Printing(), cpu=0.1, batch_size=4),
        plan_text_sink(),
    ]
    source = StagePlan("sources", "odd", odd_stages.OddSources())
    plan = check_plan("default", "odd", source, stages)
    with own_stdout(workspace.folder / "printed"):
        return {"first": workspace.run(plan, workspace.folder / "volume")}


def pieces(workspace: Workspace) -> Mapping[str, StoredRun]:
    """Run a generator whose large payloads are passed on early. One source fails midway."""
    log = str(workspace.folder / "log")
    asked: dict[str, Any] = {"cpu": 0.25, "max_workers": 1}
    generator = streaming_stages.Pieces(log=log, count=PIECES, raises_at=7, raises_in=1)
    stages = [
        StagePlan("pieces", "pieces", generator, **asked),
        StagePlan("name", "name", streaming_stages.Name(log=log), **asked),
    ]
    plan = check_plan("default", "pieces", plan_numbers(PIECE_SOURCES), stages)
    return {"first": workspace.run(plan, workspace.folder / "volume")}


def stopped(workspace: Workspace) -> Mapping[str, StoredRun]:
    """Run sources that share files, and stop while 20 tasks wait for a file to fill."""
    volume = workspace.folder / "volume"
    stages = [
        StagePlan("rows", "rows", MakeRow(), cpu=0.1),
        StagePlan("jsonl", "jsonl", JsonlSink(target_bytes=1 << 30), cpu=0.1),
    ]
    plan = check_plan("default", "sharing", plan_numbers(STOPPED_SOURCES), stages)
    first = workspace.run(plan, volume, lambda progress: len(progress.flow.queues[-1]) >= WAITING)
    return {"first": first, "rest": workspace.run(plan, volume, engine=REFERENCE)}


def casualties(workspace: Workspace) -> Mapping[str, StoredRun]:
    """Run a stage that fails in setup, hangs, ends its worker, or raises."""
    volume = workspace.folder / "volume"
    stage = Casualties(folder=str(workspace.folder))
    stages = [
        StagePlan("casualties", "casualties", stage, cpu=0.1, batch_size=2, timeout=0.5),
        plan_text_sink(),
    ]
    plan = check_plan("default", "casualties", plan_numbers(12), stages)
    settings: dict[str, Any] = {
        "quarantine": Quarantine.model_validate({"after": 1, "tolerate": 4}),
        "checkpoint": Checkpoint(source_metrics=True),
    }
    return {"first": workspace.run(plan, volume, **settings)}


def documents(workspace: Workspace) -> Mapping[str, StoredRun]:
    """Run stages of the product: text documents, from raw files to compressed rows."""
    sources = f"source.with.paths=[{EXAMPLES}/documents/*]"
    plan = read_manifest(EXAMPLES / "text-documents.yaml", (sources,)).plan
    return {"first": workspace.run(plan, workspace.folder / "volume")}


def fields(workspace: Workspace) -> Mapping[str, StoredRun]:
    """Write Zarr fields, whose chunks hold several sources. The second attempt has no work."""
    plan = read_manifest(EXAMPLES / "fields.yaml").plan
    volume = workspace.folder / "volume"
    return {"first": workspace.run(plan, volume), "again": workspace.run(plan, volume)}


def write_files(folder: Path) -> Path:
    """Write the input files of `rows` and return their folder."""
    for name, numbers in FILES.items():
        (folder / name).write_text(json.dumps(numbers))
    (folder / BROKEN).write_text("[1, ")
    return folder


def plan_rows(inputs: Path, output: Path | None = None, *, isolate: bool = False) -> PipelinePlan:
    """Plan `rows`.

    Args:
        inputs: folder of the files.
        output: output folder of the sink, or None for the volume.
        isolate: True to give each stage its own workers.
    """
    asked: dict[str, Any] = {"cpu": 0.1, "isolate": isolate}
    stages = [
        # With two workers, the tasks of a source come from several processes.
        work(CutNumbers(), workers=(2, None), **asked),
        work(RejectThrees(), on_error="deadLetter", **asked),
        work(LineMoments(), **asked),
        work(LineMoments(padding=LARGE), name="large", **asked),
        work(KeyList(), batch_size=3, **asked),
        work(RejectSeventy(), group=4, on_error="deadLetter", **asked),
        work(Halve(), **asked),
        work(engine_stages.Identity(), group=2, **asked),
    ]
    sink = ParquetSink(path=str(output)) if output else ParquetSink()
    source = ListedFiles(folder=str(inputs), names=(*FILES, BROKEN, MISSING))
    return Pipeline("rows", source=source, stages=stages, sink=work(sink, **asked)).plan


def plan_payloads(output: Path, *, isolate: bool = False) -> PipelinePlan:
    """Plan `payloads`; see `plan_rows`."""
    asked: dict[str, Any] = {"cpu": 0.1, "isolate": isolate}
    stages = [
        StagePlan("thrice", "thrice", Thrice(), **asked),
        StagePlan("widen", "widen", Widen(), group=3, **asked),
        StagePlan("pair", "pair", Pair(), group=2, **asked),
        StagePlan("fill", "fill", FillArray(), **asked),
        StagePlan("change", "change", ChangeArray(), **asked),
        StagePlan("text", "text", engine_stages.TextSink(), **asked),
    ]
    plan = check_plan("default", "payloads", plan_numbers(4), stages)
    return replace(plan, output=str(output))


def plan_numbers(count: int) -> StagePlan:
    """Plan a source of numbers."""
    return StagePlan("numbers", "numbers", engine_stages.Numbers(count=count))


def plan_text_sink() -> StagePlan:
    """Plan a sink that writes payloads as text."""
    return StagePlan("text", "text", engine_stages.TextSink(), cpu=0.1)


# All scenarios that must give the same results on all engines, in the order of the documentation.
SCENARIOS: tuple[Scenario, ...] = (
    rows,
    rows_apart,
    payloads,
    payloads_apart,
    odd,
    pieces,
    stopped,
    casualties,
    documents,
    fields,
)
