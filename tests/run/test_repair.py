"""The next run recreates missing or damaged outputs, with the same result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pipeline_runs import Passes
from strandline.ledger.checks.verification import Damage
from strandline.ledger.errors import LedgerError
from strandline.ledger.gather.verification import verify_pieces
from strandline.run.attempt.outcome import AttemptResult
from strandline.run.revise.repair import repair_outputs
from strandline.storage.layout import PipelineFolder
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.status.enums import Trigger

NAME, FILES = "rows", 5
SINKS: list[dict[str, Any]] = [
    {"use": "parquet"},
    {"use": "jsonl", "with": {"targetBytes": 1 << 20}},
]


def run(passes: Passes, sink: Mapping[str, Any], trigger: Trigger = Trigger.RUN) -> AttemptResult:
    return passes.run(
        NAME,
        trigger=trigger,
        source={"use": "jsonl-files", "with": {"paths": [f"{passes.folder}/in/*.jsonl"]}},
        stages=[{"use": "read-jsonl"}, {"use": "measure-fields", "with": {"columns": ["n"]}}],
        sink=dict(sink),
    )


def make(folder: Path, sink: Mapping[str, Any]) -> Passes:
    """Return a pipeline whose run is complete."""
    passes = Passes(folder)
    (folder / "in").mkdir()
    for number in range(FILES):
        rows = "".join(json.dumps({"n": number * 10 + at}) + "\n" for at in range(4))
        (folder / f"in/{number}.jsonl").write_text(rows)
    assert run(passes, sink).code is ExitCode.COMPLETE
    return passes


def find_folder(passes: Passes) -> PipelineFolder:
    return PipelineFolder.on_volume(passes.volume, "default", NAME)


def list_outputs(passes: Passes) -> list[Path]:
    root = passes.find_output(NAME)
    return sorted(path for path in root.rglob("*") if path.suffix in {".parquet", ".jsonl"})


def read_statistics(passes: Passes) -> str:
    name = "latest/artifacts/measure-fields.field-statistics.json"
    return (passes.find_output(NAME).parent / name).read_text()


def find_problems(passes: Passes) -> list[str]:
    with passes.opened(NAME) as store:
        gathered = verify_pieces(store, find_folder(passes).shards).problems
    return [*passes.find_problems(NAME), *gathered]


def repair(passes: Passes, *, is_trial: bool = False) -> Damage:
    return repair_outputs(find_folder(passes), str(passes.find_output(NAME)), is_trial=is_trial)


def hurt(path: Path, how: str) -> None:
    if how == "delete":
        path.unlink()
    elif how == "cut":
        path.write_bytes(path.read_bytes()[:-3])
    elif how == "flip":
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    else:
        path.with_name(f"extra{path.suffix}").write_bytes(b"x")


HURTS = st.lists(
    st.tuples(st.integers(0, 99), st.sampled_from(["delete", "cut", "flip", "extra"])),
    min_size=1,
    max_size=4,
)


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(
    hurts=HURTS,
    sink=st.sampled_from(SINKS),
    hurts_pieces=st.booleans(),
    is_in_one=st.booleans(),
)
@example(hurts=[(0, "extra")], sink=SINKS[0], hurts_pieces=False, is_in_one=True)
def test_law_a_repair_and_a_run_restore_the_outputs(
    hurts: list[tuple[int, str]],
    sink: dict[str, Any],
    hurts_pieces: bool,
    is_in_one: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    passes = make(tmp_path_factory.mktemp("repair"), sink)
    rows, statistics = passes.read_rows(NAME, "n"), read_statistics(passes)
    paths = list_outputs(passes)
    for at, how in hurts:
        path = paths[at % len(paths)]
        if path.exists():
            hurt(path, how)
    if hurts_pieces:
        (pack,) = find_folder(passes).shards.glob("*.pack")
        hurt(pack, "flip")
    assert find_problems(passes)
    before = {path: path.read_bytes() for path in list_outputs(passes)}
    tried = repair(passes, is_trial=True)
    assert {path: path.read_bytes() for path in list_outputs(passes)} == before
    if is_in_one:
        assert run(passes, sink, Trigger.REPAIR).code is ExitCode.COMPLETE
    else:
        assert repair(passes) == tried
        assert run(passes, sink).code is ExitCode.COMPLETE
    assert find_problems(passes) == []
    assert passes.read_rows(NAME, "n") == rows
    assert read_statistics(passes) == statistics
    assert not any(repair(passes, is_trial=True))


@pytest.mark.parametrize("sink", SINKS)
def test_only_damaged_outputs_are_made_again(tmp_path: Path, sink: dict[str, Any]) -> None:
    passes = make(tmp_path, sink)
    path = list_outputs(passes)[0]
    hurt(path, "delete")
    assert len(repair(passes).again) == (1 if sink["use"] == "parquet" else FILES)
    result = run(passes, sink)
    assert result.standing.skipped == (FILES - 1 if sink["use"] == "parquet" else 0)


def test_foreign_files_are_reported_and_kept(tmp_path: Path) -> None:
    passes = make(tmp_path, SINKS[0])
    notes, orphan = passes.find_output(NAME) / "notes.txt", passes.find_output(NAME) / "ab1"
    notes.write_text("mine")
    folder = orphan / ("ab1" + "0" * 29)
    folder.mkdir(parents=True)
    (folder / "gone.parquet").write_bytes(b"x")
    damage = repair(passes)
    assert damage.foreign == ["notes.txt"]
    assert damage.orphans == {bytes.fromhex("ab1" + "0" * 29)}
    assert notes.exists()
    assert not folder.exists() or not list(folder.iterdir())


def test_damaged_merged_statistics_are_made_again(tmp_path: Path) -> None:
    passes = make(tmp_path, SINKS[0])
    statistics = read_statistics(passes)
    (merged,) = find_folder(passes).shards.rglob("*.merged/*")
    hurt(merged, "flip")
    assert find_problems(passes)
    assert repair(passes).again == {}
    assert run(passes, SINKS[0]).code is ExitCode.COMPLETE
    assert find_problems(passes) == []
    assert read_statistics(passes) == statistics


def test_a_pipeline_without_a_ledger_has_nothing_to_repair(tmp_path: Path) -> None:
    passes = Passes(tmp_path)
    with pytest.raises(LedgerError):
        repair_outputs(find_folder(passes), str(tmp_path))
