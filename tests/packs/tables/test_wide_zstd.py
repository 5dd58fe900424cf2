"""Files that zstd wrote with windows larger than readers accept by default."""

from __future__ import annotations

import io
import sys
import tarfile
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from strandline.data.files.opening import UnreadableFileError
from strandline.plan.packages import explain_import
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.tables.read_jsonl import ReadJsonl
from strandline_packs.tables.read_webdataset import ReadWebdataset
from strandline_packs.web.warc.read_warc import ReadWarc

zstd: Any = import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
WINDOW = 28
LINES = b'{"n": 1}\n' * 10
RECORD = (
    b"WARC/1.0\r\nWARC-Type: conversion\r\nWARC-Record-ID: <urn:a>\r\nWARC-Target-URI: http://a/\r\n"
    b"Content-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello\r\n\r\n"
)


def pack(content: bytes) -> bytes:
    packed = io.BytesIO()
    options = {zstd.CompressionParameter.window_log: WINDOW}
    with zstd.ZstdFile(packed, "w", options=options) as file:
        file.write(content)
    return packed.getvalue()


def build_tar() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        member = tarfile.TarInfo("a.txt")
        member.size = 5
        archive.addfile(member, io.BytesIO(b"hello"))
    return file.getvalue()


READERS: dict[str, tuple[type[Stage], dict[str, Any], bytes, int]] = {
    "a.jsonl.zst": (ReadJsonl, {}, LINES, 10),
    "a.wet.zst": (ReadWarc, {"records": "conversion"}, RECORD, 1),
    "a.tar.zst": (ReadWebdataset, {}, build_tar(), 1),
}


def read(folder: Path, name: str, content: bytes, **params: Any) -> int:
    kind, always, _, _ = READERS[name]
    (folder / name).write_bytes(content)
    path = str(folder / name)
    data = pa.table({"key": [name], "path": [path]})
    for column, value in (("start", 0), ("stop", None)) if kind is ReadWarc else ():
        data = data.append_column(column, pa.array([value], pa.int64()))
    stage = kind(**always, **params)
    stage.setup()
    return sum(task.table.num_rows for task in stage.process(Task(data)) or ())  # type: ignore[union-attr]


@pytest.mark.parametrize("name", READERS)
def test_a_parameter_allows_larger_windows(tmp_path: Path, name: str) -> None:
    content, rows = READERS[name][2:]
    with pytest.raises(UnreadableFileError, match="set the reader's `zstdWindow`"):
        read(tmp_path, name, pack(content))
    assert read(tmp_path, name, pack(content), zstd_window=WINDOW) == rows
    assert read(tmp_path, name, zstd.compress(content), zstd_window=31) == rows


def test_consecutive_frames_are_one_file(tmp_path: Path) -> None:
    assert read(tmp_path, "a.jsonl.zst", pack(LINES) * 3, zstd_window=WINDOW) == 30


@pytest.mark.parametrize("name", READERS)
def test_a_truncated_file_is_incomplete(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnreadableFileError):
        read(tmp_path, name, pack(READERS[name][2])[:-4], zstd_window=WINDOW)


def test_bytes_after_the_last_frame_are_not_ignored(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFileError, match=r"a\.jsonl\.zst"):
        read(tmp_path, "a.jsonl.zst", pack(LINES) + b"junk", zstd_window=WINDOW)


def test_the_required_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, zstd.__name__, None)
    with pytest.raises(ImportError) as caught:
        read(tmp_path, "a.jsonl.zst", pack(LINES), zstd_window=WINDOW)
    assert "install 'strandline[zstd]'" in explain_import(caught.value)
