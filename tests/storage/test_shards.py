"""Readers of frame files never trust incomplete frames, and report damage."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from strandline.storage.outputs.disk.shards import (
    DamagedFileError,
    FrameWriter,
    PackReader,
    Title,
    open_frames,
    read_frame,
)

KEYS = [bytes([number]) * 16 for number in range(1, 4)]
SIZE = b"\0\0\0\0\0\0\0\5"  # data size in a frame's header


def title(key: bytes) -> Title:
    return Title(key, b"t" * 16, "words")


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    """Write a pack with three frames of five bytes."""
    path = tmp_path / "000001.pack"
    with closing(FrameWriter(path)) as writer:
        for key in KEYS:
            writer.append(title(key), b"data" + key[:1])
        writer.sync()
    return path


@pytest.fixture
def reader(pack: Path) -> Iterator[PackReader]:
    with closing(PackReader(open_frames(pack, is_read_on=True))) as made:
        yield made


def test_a_writer_that_failed_once_writes_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(FrameWriter(tmp_path / "000001.shard")) as writer:
        writer.append(title(KEYS[0]), b"one")

        def fail(_: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patch:
            patch.setattr("strandline.storage.outputs.disk.shards.os.fsync", fail)
            with pytest.raises(OSError, match="No space left"):
                writer.sync()
        for again in (writer.sync, lambda: writer.append(title(KEYS[1]), b"two")):
            with pytest.raises(OSError, match="No space left"):
                again()


def test_frames_are_found_in_order_and_others_are_skipped(reader: PackReader) -> None:
    assert reader.find(title(KEYS[0]), 5) == b"data\1"
    assert reader.find(title(KEYS[2]), 5) == b"data\3"
    with pytest.raises(DamagedFileError, match="is missing"):
        reader.find(title(KEYS[1]), 5)


@pytest.mark.parametrize("which", [0, 1])
def test_a_damaged_size_is_not_trusted(pack: Path, which: int) -> None:
    content = bytearray(pack.read_bytes())
    at = -1
    for _ in range(which + 1):
        at = content.index(SIZE, at + 1)
    content[at] = 0x7F  # increases the size to exabytes
    pack.write_bytes(bytes(content))
    with closing(PackReader(open_frames(pack, is_read_on=True))) as reader:
        for key in KEYS[:which]:
            reader.find(title(key), 5)
        with pytest.raises(DamagedFileError, match="is missing"):
            reader.find(title(KEYS[which]), 5)
    with open_frames(pack, is_read_on=False) as file:
        at = which * (len(content) // 3)
        with pytest.raises(DamagedFileError, match="is not at its recorded position"):
            read_frame(file, at, title(KEYS[which]), 5)
