"""After a change of the pipeline, each engine continues from results of another engine.

A relay runs the steps on different engines over one volume. The first step finishes a table; the
next steps change a filter, a column, and the table. Sources share a file.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from conformance import ConformanceRuns, StoredRun
from conformance_stages import Times, Under
from strandline import OnChange, Pipeline, work
from strandline.ledger.access.session import opened_to_read
from strandline.run.attempt.engines import ENGINES
from strandline.run.revise.cuts import auto_cuts, choice
from strandline.run.revise.cuts.auto_cuts import CutSettings, read_choice
from strandline.run.revise.cuts.choice import CutVerdict
from strandline.run.revise.cuts.files import measure_all_cuts
from strandline.stages import ParquetSink, ReadTable, TableFiles
from strandline_api.outcome.exit_codes import ExitCode

pytestmark = pytest.mark.first(reason="each engine continues from the previous one")

FILES = ([0, 1, 2, 3], [10, 11, 12], [20, 21], [30, 31, 32])


class Step(NamedTuple):
    """An attempt of a relay.

    Attributes:
        limit, by: parameters of the filter and of the column.
        is_changed: True for a new version of the table, without 11 and with 40.
        read: number of files that the reader processes.
    """

    limit: int
    by: int
    is_changed: bool
    read: int


STEPS = {
    "first": Step(limit=31, by=2, is_changed=False, read=4),
    "filter": Step(limit=21, by=2, is_changed=False, read=0),
    "column": Step(limit=21, by=3, is_changed=False, read=0),
    "table": Step(limit=21, by=3, is_changed=True, read=2),
}


def list_relays() -> list[object]:
    """Return a relay for each engine to start with. Only the first is in the first tier.

    A relay uses the engines in turn. Together, the relays run each step on each engine.
    """
    return [
        pytest.param(
            rotate(ENGINES, first),
            id=f"from-{first}",
            marks=[] if first == ENGINES[0] else pytest.mark.more,
        )
        for first in ENGINES
    ]


def rotate(engines: Sequence[str], first: str) -> tuple[str, ...]:
    """Return the engine of each step: all engines in the product's order, from `first` on."""
    at = engines.index(first)
    order = [*engines[at:], *engines[:at]]
    return tuple(order[step % len(order)] for step in range(len(STEPS)))


def plan_step(folder: Path, step: Step, *, keep: bool) -> Pipeline:
    asked: dict[str, Any] = {"cpu": 0.1}
    return Pipeline(
        "relay",
        source=TableFiles(table=f"delta:{folder}/table", on_removed="Delete"),
        stages=[
            work(ReadTable(columns=("n",)), keep=keep, **asked),
            work(Under(limit=step.limit), **asked),
            work(Times(by=step.by), **asked),
        ],
        sink=work(ParquetSink(target_bytes=1_000_000), batch_size=4, **asked),
    )


def list_rows(step: Step) -> list[tuple[int, int]]:
    numbers = {number for file in FILES for number in file}
    if step.is_changed:
        numbers = numbers - {11} | {40}
    return sorted((number, number * step.by) for number in numbers if number < step.limit)


def read_rows(run: StoredRun) -> list[tuple[int, int]]:
    tables = [
        pq.read_table(io.BytesIO(content))
        for name, content in run.outputs.items()
        if name.endswith(".parquet")
    ]
    rows = [row for table in tables for row in table.to_pylist()]
    return sorted((row["n"], row["times"]) for row in rows)


def write_table(folder: Path) -> None:
    for numbers in FILES:
        write_deltalake(folder / "table", pa.table({"n": numbers}), mode="append")


def change_table(folder: Path) -> None:
    DeltaTable(folder / "table").delete("n = 11")
    write_deltalake(folder / "table", pa.table({"n": [40]}), mode="append")


@pytest.mark.parametrize("engines", list_relays())
def test_each_engine_continues_the_work_of_the_previous_one(
    engines: tuple[str, ...], runs: ConformanceRuns, tmp_path: Path
) -> None:
    write_table(tmp_path)
    for engine, (name, step) in zip(engines, STEPS.items(), strict=True):
        if step.is_changed:
            change_table(tmp_path)
        plan = plan_step(tmp_path, step, keep=True).plan
        workspace = runs.enter("relay", engine)
        run = workspace.run(plan, tmp_path / "volume", on_change=OnChange.REDO)
        assert run.result.code is ExitCode.COMPLETE, (engine, name)
        counts = run.result.counts
        read = counts["read-table"].tasks_in if "read-table" in counts else 0
        assert (read, read_rows(run)) == (step.read, list_rows(step)), (engine, name)
        assert run.problems == [], (engine, name)
    assert len([name for name in run.outputs if name.endswith(".parquet")]) < len(FILES)


# The driver tries the cuts of `keep: auto`, which tests/run/test_auto_cuts.py tests in one process.
# The engines only measure the seconds.
@pytest.mark.more
@pytest.mark.parametrize("first", ENGINES)
def test_each_engine_measures_stages_for_the_choice_of_cuts(
    first: str, runs: ConformanceRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Set the cost of writing to zero. The stages are so fast that a cut would never pay off.
    monkeypatch.setattr(choice, "WRITING", 1e15)
    monkeypatch.setattr(auto_cuts, "TRIAL_SOURCES", 2)
    write_table(tmp_path)
    engines = rotate(ENGINES, first)[:2]
    for engine, name in zip(engines, ("first", "filter"), strict=True):
        step = STEPS[name]
        plan = plan_step(tmp_path, step, keep=False).plan
        settings: dict[str, Any] = {"on_change": OnChange.REDO, "cuts": CutSettings(True, 1 << 30)}
        run = runs.enter("cuts", engine).run(plan, tmp_path / "volume", **settings)
        assert run.result.code is ExitCode.COMPLETE
        assert run.result.counts["read-table"].tasks_in == step.read
        assert read_rows(run) == list_rows(step)
        with opened_to_read(tmp_path / "volume/default/relay/ledger") as store:
            verdicts = {cut.stage: cut.verdict for cut in read_choice(store).judged}
            kept = {size.stage: size.sources for size in measure_all_cuts(store, {})}
        assert verdicts["read-table"] is CutVerdict.KEPT
        assert kept["read-table"] == len(FILES)
