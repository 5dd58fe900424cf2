"""A removed setting leaves nothing that readers or the next run would find."""

from __future__ import annotations

from pathlib import Path

import pytest

from number_runs import Item
from strandline.storage.outputs.manifest import list_outputs
from strandline.storage.outputs.names import INDEX, NO_OUTPUTS
from strandline_api.outcome.exit_codes import ExitCode
from tuning import SHARED, Tuning, add

PARQUET: Item = {"use": "parquet"}
SHARED_JSONL: Item = {"use": "jsonl", "with": {"targetBytes": 1_000_000}}
MDS: Item = {"use": "mds"}
TOTAL: Item = {"use": "tuned_stages:Total"}


@pytest.fixture
def tuning(tmp_path: Path) -> Tuning:
    return Tuning(tmp_path)


def list_files(tuning: Tuning) -> set[str]:
    """Return the files that readers of the folder find."""
    files = (path for path in tuning.output.rglob("*") if path.is_file())
    names = {str(path.relative_to(tuning.output)) for path in files}
    return names - (NO_OUTPUTS - {INDEX})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (SHARED, PARQUET),
        (SHARED, {"use": "jsonl"}),
        (SHARED, SHARED_JSONL),
        (SHARED_JSONL, {"use": "jsonl"}),
        (SHARED, {"use": "parquet", "with": {"targetBytes": 300}}),
        (MDS, PARQUET),
        (MDS, {"use": "jsonl"}),
    ],
)
@pytest.mark.parametrize("on_change", ["Redo", "Restart"])
def test_files_of_a_former_sink_are_removed(
    tuning: Tuning, before: Item, after: Item, on_change: str
) -> None:
    tuning.run(add(1), sink=before)
    assert ExitCode.COMPLETE is tuning.run(add(1), sink=after, on_change=on_change)
    listed = {str(Path(path).relative_to(tuning.output)) for path in list_outputs(tuning.output)}
    assert listed == list_files(tuning)
    tuning.check()


@pytest.mark.parametrize("on_change", ["Redo", "Restart", "Continue"])
def test_statistics_of_a_removed_stage_are_not_published(tuning: Tuning, on_change: str) -> None:
    tuning.run(add(1), TOTAL)
    assert tuning.read_totals()
    assert ExitCode.COMPLETE is tuning.run(add(1), on_change=on_change)
    latest = tuning.output.parent / "latest"
    assert not list(latest.glob("artifacts/*"))
    # After the stage is added again, each row counts once.
    assert ExitCode.COMPLETE is tuning.run(add(1), TOTAL, on_change="Redo")
    tuning.run(add(1), TOTAL, name="fresh")
    assert tuning.read_totals("fresh") == tuning.read_totals()
