"""A table as a source, with its rows read in other processes: of a new version its news alone."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from strandline import Outcome, Pipeline, work
from strandline.stages import ParquetSink, ReadTable, TableFiles

TEXTS = [("moon", "tide"), ("reef", "sand"), ("kelp",)]


def run(folder: Path, engine: str) -> Outcome:
    pipeline = Pipeline(
        "wet",
        source=TableFiles(table=f"delta:{folder}/table", on_removed="Delete"),
        stages=[work(ReadTable(columns=("text",)), cpu=0.1)],
        sink=work(ParquetSink(), cpu=0.1),
    )
    return pipeline.run(folder / "volume", engine=engine, workers=2, progress=False)


def read_outputs(folder: Path) -> dict[str, tuple[str, ...]]:
    """The texts of each file, in order."""
    files = (folder / "volume/default/wet/output").rglob("*.parquet")
    return {str(file): tuple(sorted(pq.read_table(file)["text"].to_pylist())) for file in files}


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("engine", ["processes", "ray"])
def test_of_a_new_version_changed_files_alone_are_read(engine: str, tmp_path: Path) -> None:
    for texts in TEXTS:
        write_deltalake(tmp_path / "table", pa.table({"text": texts}), mode="append")
    assert run(tmp_path, engine).code == 0
    first = read_outputs(tmp_path)
    assert sorted(first.values()) == sorted(TEXTS)

    DeltaTable(tmp_path / "table").delete("text = 'moon'")
    write_deltalake(tmp_path / "table", pa.table({"text": ["foam"]}), mode="append")
    outcome = run(tmp_path, engine)
    assert (outcome.code, outcome.sources.skipped, outcome.sources.finished) == (0, 2, 2)
    second = read_outputs(tmp_path)
    assert sorted(second.values()) == [("foam",), ("kelp",), ("reef", "sand"), ("tide",)]
    assert len(first.items() & second.items()) == 2
