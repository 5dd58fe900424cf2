"""Files in the formats of training loaders: MDS, datatrove, Megatron, and `datasets`."""

from __future__ import annotations

import io
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from shard_files import read_mds
from stage_runs import StageRun
from strandline import ExitCode, Pipeline
from strandline.ledger.checks.verification import verify
from strandline.ledger.store.store import Store
from strandline.plan.task import Task
from strandline.stages import Files, MdsSink, ParseDocuments, ReadFiles
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.remote import open_outputs

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
ROW = st.fixed_dictionaries(
    {
        "text": texts,
        "raw": st.binary(max_size=5),
        "number": st.integers(-(2**63), 2**63 - 1),
        "small": st.integers(0, 255),
        "ratio": st.floats(allow_nan=False),
        "tokens": st.lists(st.integers(-5, 5), max_size=300),
        "facts": st.fixed_dictionaries({"a": st.none() | texts}),
        "kept": st.none() | st.booleans(),
    }
)
SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("raw", pa.binary()),
        ("number", pa.int64()),
        ("small", pa.uint8()),
        ("ratio", pa.float64()),
        ("tokens", pa.list_(pa.int32())),
        ("facts", pa.struct([("a", pa.string())])),
        ("kept", pa.bool_()),
    ]
)


@given(st.lists(ROW, min_size=1, max_size=6), st.integers(0, 6))
def test_law_samples_are_the_rows_however_they_are_chunked(
    rows: list[dict[str, Any]], cut: int
) -> None:
    table = pa.Table.from_pylist(rows, SCHEMA)
    content = StageRun("mds").written(pa.concat_tables([table.slice(0, cut), table.slice(cut)]))
    assert rows == read_mds(content)
    assert content == StageRun("mds").written(table)


def test_values_that_mds_cannot_hold_are_reported() -> None:
    with pytest.raises(ValueError, match="the column 'n' has nulls, which MDS can't store"):
        StageRun("mds").written(pa.table({"n": [1, None]}))
    with pytest.raises(ValueError, match="the column 'n' has nulls in its lists"):
        StageRun("mds").written(pa.table({"n": [[1, None]]}))
    assert [{"a": "", "b": []}] == read_mds(
        StageRun("mds").written(
            pa.table(
                {"a": pa.array([None], pa.string()), "b": pa.array([None], pa.list_(pa.int8()))}
            )
        )
    )


@pytest.mark.parametrize("length", [0, 255, 256, 65_535, 65_536])
def test_the_length_of_an_array_uses_as_few_bytes_as_possible(length: int) -> None:
    table = pa.table({"tokens": pa.array([[1] * length], pa.list_(pa.int8()))})
    assert [{"tokens": [1] * length}] == read_mds(StageRun("mds").written(table))


def test_the_index_of_a_run_lists_counted_files_and_is_verified(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a", "b", "c"):
        (tmp_path / f"in/{name}.txt").write_text(f"text {name}")
    values: dict[str, Any] = {"checkpoint_path": str(tmp_path / "volume"), "engine": "inline"}
    pipeline = Pipeline(
        "samples",
        source=Files(paths=[f"{tmp_path}/in/*"], on_removed="Delete"),
        stages=[ReadFiles(), ParseDocuments()],
        sink=MdsSink(path=str(tmp_path / "out")),
    )
    assert pipeline.run(**values).code is ExitCode.COMPLETE
    assert ["text a", "text b", "text c"] == read_indexed(tmp_path / "out")
    (tmp_path / "in/b.txt").unlink()
    assert pipeline.run(**values).code is ExitCode.COMPLETE
    assert ["text a", "text c"] == read_indexed(tmp_path / "out")
    assert [] == find_problems(tmp_path)
    (tmp_path / "out/index.json").write_text('{"version": 2, "shards": []}')
    assert ["index.json"] == [problem.rpartition(" ")[2] for problem in find_problems(tmp_path)]


def find_problems(folder: Path) -> list[str]:
    ledger = PipelineFolder.on_volume(folder / "volume", "default", "samples").ledger
    with closing(Store(ledger, readonly=True)) as store:
        return verify(store, open_outputs(str(folder / "out"))).problems


def read_indexed(folder: Path) -> list[str]:
    """Return the texts of the shards in an index, and check the index against the shards."""
    index = json.loads((folder / "index.json").read_text())
    assert 2 == index["version"]
    found = []
    for shard in index["shards"]:
        content = (folder / shard["raw_data"]["basename"]).read_bytes()
        rows = read_mds(content)
        assert (len(rows), len(content)) == (shard["samples"], shard["raw_data"]["bytes"])
        found += [row["text"] for row in rows]
    return sorted(found)


def draw_picture(shade: int) -> bytes:
    file = io.BytesIO()
    Image.new("L", (2, 1), shade).save(file, "PNG")
    return file.getvalue()


FEATURES = {"picture": "image", "sound": "audio", "kind": {"classes": ["cat", "dog"]}}


@pytest.mark.slow
def test_datasets_loads_images_sounds_and_labels_with_their_features(tmp_path: Path) -> None:
    table = pa.table(
        {
            "picture": [draw_picture(7), None],
            "sound": [b"RIFF", b"RIFF"],
            "kind": ["dog", None],
            "text": ["a", "b"],
        }
    )
    sink = StageRun("parquet", features=FEATURES)
    content = sink.written(table)
    (tmp_path / "a.parquet").write_bytes(content)
    loaded = datasets.load_dataset(
        "parquet", data_files=f"{tmp_path}/*.parquet", split="train", cache_dir=f"{tmp_path}/cache"
    )
    assert isinstance(loaded.features["picture"], datasets.Image)
    assert isinstance(loaded.features["sound"], datasets.Audio)
    assert ["cat", "dog"] == loaded.features["kind"].names
    pictures = loaded["picture"][:]
    assert 7 == pictures[0].getpixel((1, 0))
    assert pictures[1] is None
    assert [1, None] == loaded["kind"][:]
    # Files that are rewritten, such as shared files, keep their bytes.
    assert content == sink.written(pq.read_table(io.BytesIO(content)))


def test_values_that_do_not_fit_a_feature_are_named() -> None:
    for values, words in (
        ({"x": ["owl"]}, "has 'owl', which is not among its classes"),
        ({"x": [2]}, "numbers that are not among its 2 classes"),
        ({"x": [0.5]}, "must hold names or numbers of classes"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            StageRun("parquet", features={"x": FEATURES["kind"]}).written(pa.table(values))
    with pytest.raises(TypeError, match="holds string, not bytes"):
        StageRun("parquet", features={"x": "image"}).written(pa.table({"x": ["a"]}))


def test_a_mask_fits_its_tokens_and_its_format() -> None:
    with pytest.raises(ValueError, match="set `format: datatrove`"):
        StageRun("token-shards", mask="mask")
    sink = StageRun("token-shards", mask="mask", format="datatrove").stage
    write = sink.list_companions()[".ds.loss"]
    for mask, words in (([[True]], "lists of another length"), ([[1, 0]], "not lists of true")):
        with pytest.raises((TypeError, ValueError), match=words):
            write(Task(pa.table({"tokens": [[1, 2]], "mask": mask})), io.BytesIO())
