"""Hugging Face datasets as folders, and WebDataset shards."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stage_runs import StageRun
from strandline.data.files.opening import UnreadableFileError
from strandline_packs.sources.dataset_folder import DatasetError, guess_split

CARD = """---
license: apache-2.0
configs:
- config_name: small
  data_files:
  - {split: train, path: small/a-*.parquet}
  - {split: test, path: [small/b.parquet]}
- config_name: lines
  default: true
  data_dir: lines
  data_files: {train: "*.jsonl", held: held.jsonl.gz}
---
# A dataset
"""


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    for name in ("small/a-0.parquet", "small/a-1.parquet", "small/b.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"n": range(4)}), tmp_path / name, row_group_size=2)
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines/x.jsonl").write_text('{"n": 1}\n')
    (tmp_path / "lines/held.jsonl.gz").write_bytes(gzip.compress(b'{"n": 2}\n'))
    (tmp_path / "README.md").write_text(CARD)
    return tmp_path


def list_rows(path: Path | str, **values: Any) -> list[Any]:
    sources = StageRun("dataset-folder", path=str(path), **values).sources()
    return [row | {"key": source.key} for source in sources for row in source.data.to_pylist()]


def name_rows(rows: list[Any], root: Path) -> list[tuple[str, str]]:
    return sorted((row["key"].removeprefix(f"{root}/"), row["split"]) for row in rows)


def test_the_card_assigns_files_to_splits(dataset: Path) -> None:
    assert [("lines/held.jsonl.gz", "held"), ("lines/x.jsonl", "train")] == name_rows(
        list_rows(dataset), dataset
    )
    small = list_rows(dataset, config="small")
    names = ("small/a-0", "small/a-1", "small/b")
    assert [(f"{name}.parquet#rg={group}") for name in names for group in (0, 1)] == [
        key for key, _ in name_rows(small, dataset)
    ]
    assert {"train", "test"} == {row["split"] for row in small}
    (test,) = {row["path"] for row in list_rows(dataset, config="small", splits=["test"])}
    assert test.endswith("b.parquet")


def test_listed_files_are_read_by_the_readers(dataset: Path) -> None:
    (row,) = list_rows(dataset, splits=["held"])
    (table,) = StageRun("read-jsonl").tables([row])
    assert [2] == table["n"].to_pylist()
    rows = list_rows(dataset, config="small", splits=["test"])
    tables = [table for row in rows for table in StageRun("read-parquet").tables([row])]
    assert [0, 1, 2, 3] == [n for table in tables for n in table["n"].to_pylist()]


def test_without_a_card_file_names_give_the_split(dataset: Path) -> None:
    (dataset / "README.md").unlink()
    (dataset / "small").rename(dataset / "val")
    splits = {key.split("/")[0]: split for key, split in name_rows(list_rows(dataset), dataset)}
    assert {"val": "validation", "lines": "train"} == splits
    assert ["train", "test", "validation", "train"] == [
        guess_split(path)
        for path in ("data/train-0.parquet", "test.jsonl", "dev/0.parquet", "latest.parquet")
    ]


def test_a_dataset_of_any_store_is_listed(dataset: Path) -> None:
    store = fsspec.filesystem("memory")
    store.put(f"{dataset}/", "/set", recursive=True)
    assert 2 == len(list_rows("memory://set"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"config": "other"}, "the card has the configurations small, lines; name one: config"),
        ({"splits": ["dev"]}, "unknown split dev; the splits are: held, train"),
    ],
)
def test_missing_splits_are_named_with_the_existing_ones(
    dataset: Path, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(DatasetError, match=message):
        list_rows(dataset, **values)


def test_a_broken_card_and_an_empty_folder_are_named(dataset: Path, tmp_path: Path) -> None:
    (dataset / "README.md").write_text("---\na: [\n---\n")
    with pytest.raises(DatasetError, match=r"README\.md: its header is not YAML"):
        list_rows(dataset)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DatasetError, match="there are no Parquet or JSON Lines files"):
        list_rows(tmp_path / "empty")


def write_shard(path: Path, *members: tuple[str, bytes]) -> dict[str, str]:
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as shard:
        folder = tarfile.TarInfo("images")
        folder.type = tarfile.DIRTYPE
        shard.addfile(folder)
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            shard.addfile(info, io.BytesIO(data))
    return {"key": path.name, "path": str(path)}


MEMBERS = (
    ("images/1.JPG", b"jpg1"),
    ("images/1.txt", b"one"),
    ("images/2.jpg", b"jpg2"),
    ("images/2.seg.png", b"png2"),
    ("images/README", b"no sample"),
)


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz"])
def test_samples_of_a_shard_are_rows(tmp_path: Path, name: str) -> None:
    (table,) = StageRun("read-webdataset").tables([write_shard(tmp_path / name, *MEMBERS)])
    assert [
        {"key": f"{name}#images/1", "jpg": b"jpg1", "txt": b"one", "seg.png": None},
        {"key": f"{name}#images/2", "jpg": b"jpg2", "txt": None, "seg.png": b"png2"},
    ] == table.to_pylist()


def test_chosen_extensions_are_columns_and_tasks_are_bounded(tmp_path: Path) -> None:
    shard = write_shard(tmp_path / "a.tar", *MEMBERS)
    tables = StageRun("read-webdataset", extensions=["txt", "jpg"], maxRows=1).tables([shard])
    assert [["key", "txt", "jpg"]] * 2 == [table.column_names for table in tables]
    assert [["one"], [None]] == [
        [data and data.decode() for data in table["txt"].to_pylist()] for table in tables
    ]
    assert 2 == len(StageRun("read-webdataset", maxTaskBytes=5).tables([shard]))


def test_a_truncated_or_invalid_shard_fails_its_source(tmp_path: Path) -> None:
    members = [(f"{n}.json", json.dumps(n).encode() * 4000) for n in range(9)]
    shard = write_shard(tmp_path / "a.tar", *members)
    content = (tmp_path / "a.tar").read_bytes()
    for broken in (content[: len(content) // 2 + 100], b"no tar at all" * 100):
        (tmp_path / "a.tar").write_bytes(broken)
        with pytest.raises(UnreadableFileError, match=r"^a\.tar: "):
            StageRun("read-webdataset").tables([shard])
