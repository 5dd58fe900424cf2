"""A file beside the outputs lists the files that count, even if other files exist."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import pyarrow.dataset as ds
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline_runs import Passes
from strandline import Stage, Task, list_outputs
from strandline.ledger.gather.verification import verify_pieces
from strandline.run.attempt.outcome import AttemptResult
from strandline.run.revise.repair import repair_outputs
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.names import MANIFEST
from strandline_api.outcome.exit_codes import ExitCode

NAME, ROWS, CHUNK, BAD = "rows", 12, 4, -1
SINKS: list[dict[str, Any]] = [
    {"use": "parquet"},
    {"use": "jsonl"},
    {"use": "parquet", "with": {"targetBytes": 1 << 20}},
]


class Refuse(Stage):
    """Fails on a bad row after the previous rows of the file were written."""

    def process(self, task: Task) -> Task:
        if BAD in task.table["n"].to_pylist():
            msg = "a bad row"
            raise ValueError(msg)
        return task


def write(passes: Passes, number: int, *, bad_at: int | None = None) -> None:
    """Write a file of rows, optionally with a bad row."""
    lines = [json.dumps({"n": number * 100 + at}) for at in range(ROWS)]
    if bad_at is not None:
        lines[bad_at] = json.dumps({"n": BAD})
    (passes.folder / "in").mkdir(exist_ok=True)
    (passes.folder / f"in/{number}.jsonl").write_text("\n".join(lines) + "\n")


def run(passes: Passes, sink: dict[str, Any]) -> AttemptResult:
    return passes.run(
        NAME,
        source={
            "use": "jsonl-files",
            "with": {"paths": [f"{passes.folder}/in/*.jsonl"], "onRemoved": "Delete"},
        },
        stages=[
            {"use": "read-jsonl", "with": {"maxRows": CHUNK}},
            {"use": "test_listed_outputs:Refuse"},
        ],
        sink=sink,
    )


def read_rows(paths: Iterable[str]) -> list[int]:
    """Return the rows as other programs read them."""
    paths = list(paths)
    if not paths:
        return []
    kind = "parquet" if paths[0].endswith(".parquet") else "json"
    rows = sorted(ds.dataset(paths, format=kind).to_table()["n"].to_pylist())
    read = duckdb.read_parquet if kind == "parquet" else duckdb.read_json
    assert sorted(n for (n,) in read(paths).project("n").fetchall()) == rows
    return rows


def expect(numbers: Iterable[int]) -> list[int]:
    return sorted(number * 100 + at for number in numbers for at in range(ROWS))


@pytest.mark.parametrize("sink", SINKS, ids=["files", "lines", "shared"])
def test_the_list_has_files_of_finished_sources_only(sink: dict[str, Any], tmp_path: Path) -> None:
    passes = Passes(tmp_path)
    for number in range(3):
        write(passes, number, bad_at=ROWS - 1 if number == 1 else None)

    assert run(passes, sink).code is ExitCode.SOURCES_FAILED

    output = passes.find_output(NAME)
    files = list_outputs(output)
    assert read_rows(files) == expect([0, 2])
    lying = {str(path) for path in output.rglob(f"*{Path(files[0]).suffix}")}
    # The sink rewrote its shared file without the rows of the failed source.
    assert set(files) == lying if "with" in sink else set(files) < lying
    assert passes.find_problems(NAME) == []
    write(passes, 1)
    assert run(passes, sink).code is ExitCode.COMPLETE
    assert read_rows(list_outputs(output)) == expect([0, 1, 2])


FATES = st.sampled_from(["new", "changed", "gone", "bad", "same"])


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(FATES, min_size=3, max_size=3), min_size=1, max_size=4), st.data())
def test_law_the_list_has_the_rows_that_the_ledger_counts(
    tmp_path_factory: pytest.TempPathFactory, days: list[list[str]], data: st.DataObject
) -> None:
    sink = data.draw(st.sampled_from(SINKS))
    passes = Passes(tmp_path_factory.mktemp("run"))
    good: set[int] = set()
    write(passes, 9)
    for day in days:
        for number, fate in enumerate(day):
            path = passes.folder / f"in/{number}.jsonl"
            match fate:
                case "gone":
                    path.unlink(missing_ok=True)
                    good.discard(number)
                case "bad":
                    write(passes, number, bad_at=data.draw(st.integers(0, ROWS - 1)))
                    good.discard(number)
                case "new" | "changed":
                    write(passes, number)
                    good.add(number)
        run(passes, sink)
        assert read_rows(list_outputs(passes.find_output(NAME))) == expect({*good, 9})
        assert passes.find_problems(NAME) == []


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


@pytest.mark.parametrize("hurt", [Path.unlink, cut])
def test_a_damaged_list_is_reported_and_rewritten(
    hurt: Callable[[Path], None], tmp_path: Path
) -> None:
    passes = Passes(tmp_path)
    write(passes, 1)
    run(passes, SINKS[1])
    folder, path = (
        PipelineFolder.on_volume(passes.volume, "default", NAME),
        passes.find_output(NAME),
    )
    hurt(path / MANIFEST)
    (problem,) = passes.find_problems(NAME)
    assert MANIFEST in problem

    damage = repair_outputs(folder, str(path))

    assert damage.is_list_hurt
    assert not damage.again
    run(passes, SINKS[1])
    assert passes.find_problems(NAME) == []
    assert read_rows(list_outputs(path)) == expect([1])
    with passes.opened(NAME) as store:
        assert verify_pieces(store, folder.shards).problems == []


def test_a_run_with_nothing_to_do_leaves_the_list(tmp_path: Path) -> None:
    passes = Passes(tmp_path)
    write(passes, 1)
    run(passes, SINKS[1])
    path = passes.find_output(NAME) / MANIFEST
    before = path.stat().st_mtime_ns, path.stat().st_ino
    run(passes, SINKS[1])
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == before


def test_outputs_without_a_list_are_reported(tmp_path: Path) -> None:
    passes = Passes(tmp_path)
    write(passes, 1)
    run(passes, SINKS[1])
    output = shutil.copytree(passes.find_output(NAME), tmp_path / "copy")
    assert read_rows(list_outputs(output)) == expect([1])
    (output / MANIFEST).unlink()
    with pytest.raises(FileNotFoundError, match="_manifest is missing; it is written when"):
        list_outputs(output)


def test_a_remote_store_has_the_list_too(tmp_path: Path) -> None:
    passes = Passes(tmp_path)
    for number in range(3):
        write(passes, number, bad_at=ROWS - 1 if number == 1 else None)
    place = f"memory://listed/{tmp_path.name}"

    assert run(passes, {"use": "jsonl", "with": {"path": place}}).code is ExitCode.SOURCES_FAILED

    files = list_outputs(place)
    rows = [json.loads(line)["n"] for file in files for line in fsspec.open(file, "rt").open()]
    assert sorted(rows) == expect([0, 2])
    lying = fsspec.filesystem("memory").find(place.removeprefix("memory:/"))
    assert len(files) < sum(name.endswith(".jsonl") for name in lying)
