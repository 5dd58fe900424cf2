"""Files of a sample beside its image: kept when a shard is rewritten, or counted."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stage_runs import ForwardFile, Rows, StageRun
from strandline.data.tables.columns import MissingColumnError
from strandline.plan.stages.ends import SharingSink
from strandline.plan.task import Task
from strandline_api.documents.problems import SpecError
from strandline_packs.sinks.webdataset_sink import WebdatasetSink
from test_damaged_shards import pack

JPEG, PNG = b"\xff\xd8\xff", b"\x89PNG"
MEMBERS = [
    ("a.jpg", JPEG + b"1"),
    ("a.txt", b"a cat"),
    ("a.seg.png", PNG + b"1"),
    ("a.json", b'{"licence": "CC0"}'),
    ("b.jpg", JPEG + b"2"),
    ("b.seg.png", PNG + b"2"),
]


def read_samples(path: Path, **values: Any) -> pa.Table:
    (table,) = StageRun("read-webdataset", **values).tables([{"key": path.name, "path": str(path)}])
    return table


@pytest.fixture
def samples(tmp_path: Path) -> pa.Table:
    path = tmp_path / "in.tar"
    path.write_bytes(pack(MEMBERS))
    return read_samples(path)


def build(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist(rows)


def list_members(shard: bytes) -> list[tuple[str, bytes]]:
    """Return extensions and contents in order."""
    with tarfile.open(fileobj=io.BytesIO(shard)) as tar:
        return [
            (member.name.partition(".")[2], content.read())
            for member in tar
            if (content := tar.extractfile(member))
        ]


def test_omitted_files_of_a_rewritten_sample_are_counted(
    samples: pa.Table,
) -> None:
    run = StageRun("webdataset", key="key", content="jpg")
    run.written(samples)
    assert {
        "left out: column 'txt'": 1,
        "left out: column 'seg.png'": 2,
        "left out: column 'json'": 1,
    } == run.counters


def test_named_files_of_a_rewritten_sample_are_kept(samples: pa.Table, tmp_path: Path) -> None:
    kept = samples.rename_columns(
        {"json": "meta.json"} | {name: name for name in samples.column_names if name != "json"}
    )
    files = ["txt", "seg.png", "meta.json"]
    run = StageRun("webdataset", key="key", content="jpg", files=files)
    shard = run.written(kept)
    assert {} == run.counters
    members = list_members(shard)
    others = [member for member in members if member[0] != "json"]
    assert [
        ("jpg", JPEG + b"1"),
        ("txt", b"a cat"),
        ("seg.png", PNG + b"1"),
        ("meta.json", b'{"licence": "CC0"}'),
        ("jpg", JPEG + b"2"),
        ("seg.png", PNG + b"2"),
    ] == others
    path = tmp_path / "out.tar"
    path.write_bytes(shard)
    again = read_samples(path, extensions=["jpg", *files]).drop_columns("key")
    assert again.equals(kept.select(["jpg", *files]))


def test_text_in_a_file_is_not_repeated_in_the_json() -> None:
    rows: Rows = [{"clip": "a", "content": JPEG, "caption": "Käse", "note": "n"}]
    members = dict(list_members(StageRun("webdataset", files=["caption"]).written(build(rows))))
    assert "Käse".encode() == members["caption"]
    facts = json.loads(members["json"])
    assert ("n", False) == (facts["note"], "caption" in facts)


def test_values_that_do_not_fit_into_a_sample_are_counted() -> None:
    table = pa.table(
        {
            "clip": ["a", "b"],
            "content": [JPEG, JPEG],
            "frames": pa.array([[{"rgb": b"1"}], None], pa.list_(pa.struct({"rgb": pa.binary()}))),
            "mask": pa.array([b"1", b"2"], pa.large_binary()),
            "hash": pa.array([b"12", None], pa.binary(2)),  # short, and base64 in the JSON
            "bytes": [5, 6],  # the sink has a column of this name
            "empty": pa.array([None, None], pa.binary()),
        }
    )
    run = StageRun("webdataset")
    run.written(table)
    assert {
        "left out: column 'frames'": 1,
        "left out: column 'mask'": 2,
        "left out: column 'bytes'": 2,
    } == run.counters


def test_a_copy_of_some_samples_has_all_of_their_files() -> None:
    rows = [
        {"clip": name, "content": JPEG, "txt": text, "clip.png": mask}
        for name, text, mask in (("a", "1", None), ("b", None, None), ("c", "3", PNG))
    ]
    stage = StageRun("webdataset", files=["txt", "clip.png"]).stage
    assert isinstance(stage, SharingSink)

    def write(part: Rows) -> bytes:
        file = ForwardFile()
        stage.write_shared([Task(pa.Table.from_pylist(part, schema))], file)  # type: ignore[arg-type]
        return bytes(file.content)

    schema = build(rows).schema
    for kept in ([0], [1], [2], [0, 2], [1, 2], [0, 1, 2]):
        copied = ForwardFile()
        ranges = [range(at, at + 1) for at in kept]
        stage.copy_rows({".tar": io.BytesIO(write(rows))}, ranges, ".tar", copied)  # type: ignore[arg-type]
        assert write([rows[at] for at in kept]) == bytes(copied.content)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["json"], r"'json' is the sink's own file of a sample; give the column another name"),
        (["txt", "txt"], r"'txt' is named twice"),
        (["TXT"], r"'TXT' must be an extension: .*lowercase letters"),
        (["a/b"], r"'a/b' must be an extension"),
        (["x" * 40], r"must be an extension"),
        (["content"], r"'content' is already the file of the sample's content"),
    ],
)
def test_invalid_file_names_of_a_sample_are_refused(files: list[str], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        WebdatasetSink(files=files)


def test_columns_that_cannot_be_files_are_refused() -> None:
    rows: Rows = [{"clip": "a", "content": JPEG, "jpg": PNG, "score": 1.5}]
    with pytest.raises(MissingColumnError, match="no column 'txt'"):
        StageRun("webdataset", files=["txt"]).written(build(rows))
    with pytest.raises(TypeError, match="the column 'score' holds double, neither bytes nor text"):
        StageRun("webdataset", files=["score"]).written(build(rows))
    with pytest.raises(ValueError, match="'a' has two files 'jpg': its content, and the column"):
        StageRun("webdataset", files=["jpg"]).written(build(rows))


def test_a_sink_without_files_keeps_its_fingerprint() -> None:
    assert "files" in WebdatasetSink.added_params
