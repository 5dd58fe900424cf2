"""Tars with damage by disks, networks, and people: no sample is silently lost or mixed."""

from __future__ import annotations

import bz2
import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_runs import StageRun
from strandline.data.files.opening import UnreadableFileError

Members = list[tuple[str, bytes]]
TWIN = b"\x00\x05\x16\x07" + bytes(60)
SAMPLES: Members = [
    (f"s{number}.{kind}", f"{number}{kind}".encode() * 50 * number)
    for number in range(5)
    for kind in ("jpg", "txt")
]
FORMATS = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
PACKED: dict[str, Callable[[bytes], bytes]] = {
    ".tar.gz": gzip.compress,
    ".tar.bz2": bz2.compress,
    ".tar.zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
}


def pack(members: Members, kind: int = tarfile.USTAR_FORMAT) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=kind) as shard:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            shard.addfile(info, io.BytesIO(data))
    return file.getvalue()


def list_contents(content: bytes) -> set[int]:
    """Return the positions of contents, which have no checksum in a tar."""
    with tarfile.open(fileobj=io.BytesIO(content)) as shard:
        return {
            at
            for member in shard
            for at in range(member.offset_data, member.offset_data + member.size)
        }


def read(path: Path, content: bytes, **values: Any) -> tuple[list[dict[str, Any]], dict[str, int]]:
    path.write_bytes(content)
    run = StageRun("read-webdataset", **values)
    tables = run.tables([{"key": path.name, "path": str(path)}])
    return [row for table in tables for row in table.to_pylist()], run.counters


def is_lossless(path: Path, content: bytes, rows: list[dict[str, Any]]) -> bool:
    """Return True if the rows are undamaged or the source fails with a message."""
    try:
        return read(path, content)[0] == rows
    except UnreadableFileError as error:
        return str(error).startswith(f"{path.name}: ")


def damage(draw: st.DrawFn, whole: bytes) -> bytes:
    """Draw a bit flip outside contents, a hole, a cut, a join, or a gap."""
    begin = draw(st.integers(0, len(whole) - 1))
    end = min(begin + draw(st.sampled_from([1, 100, 512, 1024, 3000])), len(whole))
    match draw(st.sampled_from(["flip", "hole", "cut", "join", "gap"])):
        case "flip":
            bit = 1 << draw(st.integers(0, 7))
            return whole[:begin] + bytes([whole[begin] ^ bit]) + whole[begin + 1 :]
        case "hole":
            return whole[:begin] + bytes(end - begin) + whole[end:]
        case "cut":
            return whole[:begin]
        case "join":
            return whole + draw(st.sampled_from([whole, whole[:700], b"x", pack([("z.t", b"")])]))
        case _:  # whole blocks would leave a different but valid tar
            return whole[:begin] + whole[begin + draw(st.sampled_from([1, 100, 700, 3000])) :]


@given(data=st.data(), kind=st.sampled_from(FORMATS))
def test_damage_outside_of_contents_gives_the_same_rows_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, kind: int
) -> None:
    path = tmp_path_factory.mktemp("shard") / "a.tar"
    whole = pack(SAMPLES, kind)
    rows, _ = read(path, whole)
    assert 5 == len(rows)
    broken = data.draw(st.composite(damage)(whole))
    contents = list_contents(whole)
    if len(broken) == len(whole):  # only contents may change, because they have no checksum
        broken = bytes(
            old if at in contents else new
            for at, (old, new) in enumerate(zip(whole, broken, strict=True))
        )
    assert is_lossless(path, broken, rows)


@given(data=st.data(), suffix=st.sampled_from(sorted(PACKED)))
def test_damage_of_a_compressed_shard_gives_the_same_rows_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, suffix: str
) -> None:
    path = tmp_path_factory.mktemp("shard") / f"a{suffix}"
    whole = PACKED[suffix](pack(SAMPLES))
    rows, _ = read(path, whole)
    at = data.draw(st.integers(0, len(whole) - 1))
    other = data.draw(st.sampled_from(sorted(PACKED)))
    broken = data.draw(
        st.sampled_from(
            [whole[:at], whole + whole, whole + b"x", PACKED[other](whole), pack(SAMPLES)]
        )
    )
    assert is_lossless(path, broken, rows)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (
            [("a.jpg", b"1"), ("b.jpg", b"2"), ("a.txt", b"3")],
            "belong to one sample, but are not adjacent",
        ),
        (
            [("a.jpg", b"1"), ("b.jpg", b"2"), ("./a.txt", b"3")],
            "belong to one sample, but are not adjacent",
        ),
        ([("a.jpg", b"1"), ("a.jpg", b"2")], r"byte 0 and 'a\.jpg' at byte 1,024 are the same"),
        ([("a.jpg", b"1"), ("a.JPG", b"2")], "are the same file of a sample"),
        ([("a.key", b"1")], "as the column of keys is called"),
        ([("README", b"1"), ("LICENSE", b"2")], "no file has one of the requested extensions"),
    ],
)
def test_members_that_make_no_samples_are_named_with_their_places(
    tmp_path: Path, members: Members, message: str
) -> None:
    with pytest.raises(UnreadableFileError, match=message):
        read(tmp_path / "a.tar", pack(members))


def test_unknown_extensions_fail_the_source(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFileError, match="extensions are: 'jpg', 'txt'"):
        read(tmp_path / "a.tar", pack(SAMPLES), extensions=["jpeg"])


def test_members_without_a_sample_are_counted_by_reason(tmp_path: Path) -> None:
    members: Members = [
        ("a.jpg", b"1"),
        ("._a.jpg", TWIN),
        ("a.txt", b"2"),
        ("d/.DS_Store", b"x"),
        ("README", b"y"),
        ("b.wav", b"3"),
    ]
    rows, counters = read(tmp_path / "a.tar", pack(members), extensions=["jpg", "txt"])
    assert [{"key": "a.tar#a", "jpg": b"1", "txt": b"2"}] == rows
    assert {
        "dropped: attributes of macOS": 1,
        "dropped: name that begins with a dot": 1,
        "dropped: name without extension": 1,
        "dropped: none of the extensions": 1,
    } == counters


@pytest.mark.parametrize("packed", FORMATS)
@pytest.mark.parametrize("link", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_are_counted_and_folders_are_ignored(
    tmp_path: Path, link: bytes, packed: int
) -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=packed) as shard:
        for name, kind in (("d", tarfile.DIRTYPE), ("b.jpg", link), ("a.jpg", b"0")):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "a.jpg"
            shard.addfile(info)
    rows, counters = read(tmp_path / "a.tar", file.getvalue())
    assert [{"key": "a.tar#a", "jpg": b""}] == rows
    assert {"dropped: no plain file": 1} == counters


@pytest.mark.parametrize("kind", FORMATS)
def test_names_of_any_length_and_script_are_whole(tmp_path: Path, kind: int) -> None:
    names = ["é" * 20, "x" * 90, f"{'d' * 80}/{'x' * 90}"]
    names += [] if kind == tarfile.USTAR_FORMAT else ["long" * 70]
    rows, _ = read(tmp_path / "a.tar", pack([(f"{name}.t", b"1") for name in names], kind))
    assert [f"a.tar#{name}" for name in names] == [row["key"] for row in rows]


def test_an_empty_tar_has_no_samples(tmp_path: Path) -> None:
    assert ([], {}) == read(tmp_path / "a.tar", pack([]))


def test_a_name_that_is_not_utf_8_stays_distinct(tmp_path: Path) -> None:
    content = pack([("caf@.t", b"1")]).replace(b"caf@", b"caf\xe9")
    head = bytearray(content[:512])
    head[148:156] = b" " * 8
    head[148:155] = f"{sum(head):06o}\0".encode()
    assert r"a.tar#caf\xe9" == read(tmp_path / "a.tar", bytes(head) + content[512:])[0][0]["key"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a tar; its first bytes are those of nothing"),
        (gzip.compress(pack(SAMPLES)), r"those of gzip: .* ends in \.gz"),
        (b"<!DOCTYPE html><p>Sign in <input type=password>" * 20, "a login page"),
        (b'{"a": 1}\n' * 99, "JSON Lines: read it with read-jsonl"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "a pointer of Git LFS"),
        (pack(SAMPLES) + pack(SAMPLES), "two archives in one file; split them into separate files"),
        (pack(SAMPLES)[:-10240], "the archive is truncated: it has"),
        (pack([*SAMPLES, ("t.bin", bytes(400_000))])[:99_000], r"it has [\d,]+ of"),
        (pack(SAMPLES) + bytes(20_000), "more than a tar ends with"),
    ],
)
def test_incomplete_tars_are_named(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(UnreadableFileError, match=rf"^a\.tar: .*{message}"):
        read(tmp_path / "a.tar", content)
