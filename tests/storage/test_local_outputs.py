"""An output in a folder is complete and durable under its final name, or absent."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from output_builders import write_output
from strandline.storage import faults
from strandline.storage.errors import VolumeError, naming_volume
from strandline.storage.layout import PipelineFolder, make_folder, sync_filesystem
from strandline.storage.outputs.disk.local_outputs import LocalOutputs
from strandline.storage.outputs.hashing import Content, HashingFile
from strandline.storage.outputs.names import TEMPORARY, name_source_folder
from strandline.storage.outputs.ports import GROUP_FILES, SYNCED_WHOLE_FROM

SOURCE = bytes.fromhex("abcdef0123456789abcdef0123456789")
FOLDER = "abc/abcdef0123456789abcdef0123456789"
CONTENT = b"some rows\n"
FULL = "no space is left on the volume; free some space or enlarge the volume"


@pytest.fixture
def outputs(tmp_path: Path) -> LocalOutputs:
    return LocalOutputs(tmp_path / "output", "0001-7")


def digest_of(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()


def spell(*pieces: bytes) -> Callable[[BinaryIO], None]:
    def write(file: BinaryIO) -> None:
        file.writelines(pieces)

    return write


def names(outputs: LocalOutputs) -> list[str]:
    return sorted(name for name, _ in outputs.list_names())


def test_a_written_output_exists_and_is_described(outputs: LocalOutputs) -> None:
    written = write_output(outputs, SOURCE, "t.txt", spell(CONTENT, CONTENT))
    assert Content(2 * len(CONTENT), digest_of(2 * CONTENT)) == written
    assert 2 * CONTENT == (outputs.root / FOLDER / "t.txt").read_bytes()
    assert [(f"{FOLDER}/t.txt", 2 * len(CONTENT))] == list(outputs.list_names())
    assert written.digest == outputs.digest(f"{FOLDER}/t.txt")


def test_folders_start_with_a_digest_prefix() -> None:
    assert FOLDER == name_source_folder(SOURCE)


def test_a_replay_overwrites(outputs: LocalOutputs) -> None:
    write_output(outputs, SOURCE, "t.txt", spell(b"the first and longer try"))
    write_output(outputs, SOURCE, "t.txt", spell(CONTENT))
    assert CONTENT == (outputs.root / FOLDER / "t.txt").read_bytes()
    assert [f"{FOLDER}/t.txt"] == names(outputs)


def test_bytes_are_durable_before_the_name_and_the_name_before_the_end(
    outputs: LocalOutputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, str]] = []
    fsync, rename = os.fsync, Path.rename

    def record_fsync(handle: int) -> None:
        target = os.readlink(f"/proc/self/fd/{handle}")
        calls.append(("fsync", os.path.relpath(target, outputs.root)))
        if TEMPORARY in target:
            assert len(CONTENT) == os.stat(handle).st_size  # no bytes are left in a buffer
        fsync(handle)

    def record_rename(path: Path, target: Path) -> Path:
        calls.append(("rename", str(target.relative_to(outputs.root))))
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(Path, "rename", record_rename)
    write_output(outputs, SOURCE, "t.txt", spell(CONTENT))
    assert ("fsync", "abc") in calls  # makes the names of new folders durable
    assert ("fsync", ".") in calls
    (kind, temporary), *rest = calls[-3:]
    assert "fsync" == kind
    assert temporary.startswith(f"{TEMPORARY}/0001-7-")
    assert [("rename", f"{FOLDER}/t.txt"), ("fsync", FOLDER)] == rest


def test_removed_names_are_made_durable(
    outputs: LocalOutputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("kept", "other"):
        write_output(outputs, SOURCE, name, spell(CONTENT))
    synced: list[Path] = []
    monkeypatch.setattr("strandline.storage.outputs.disk.local_outputs.sync_folder", synced.append)
    assert 1 == outputs.remove_others(SOURCE, {"kept"})
    assert [outputs.root / FOLDER] == synced


@pytest.mark.parametrize("step", [step for step in faults.STEPS if step.startswith("output.")])
def test_a_failed_write_leaves_no_temporary_file(
    outputs: LocalOutputs, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    monkeypatch.setattr(faults, "_reached", {step: 0})
    monkeypatch.setenv("STRANDLINE_FAULT", f"{step}:enospc")
    with pytest.raises(VolumeError, match=f"{outputs.root}: {FULL}"):
        write_output(outputs, SOURCE, "t.txt", spell(CONTENT))
    was_renamed = step == "output.renamed"
    assert ([f"{FOLDER}/t.txt"] if was_renamed else []) == names(outputs)


def test_a_full_disk_is_reported(outputs: LocalOutputs, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a real disk is full, the bytes that did not fit cause a second error on close."""
    opened = Path.open

    def open_full(path: Path, mode: str) -> Any:
        opened(path, mode).close()
        return opened(Path("/dev/full"), mode)

    monkeypatch.setattr(Path, "open", open_full)
    for pieces in ([CONTENT], [CONTENT] * 5000, [CONTENT * 5000]):
        with pytest.raises(VolumeError, match=f"{outputs.root}: {FULL}"):
            write_output(outputs, SOURCE, "t.txt", spell(*pieces))
        assert [] == names(outputs)


def test_errors_of_the_sink_itself_are_unchanged(outputs: LocalOutputs) -> None:
    """A sink's own error, such as a missing codec file, fails only the source: the volume works."""
    own = OSError(errno.ENOSPC, "the sink's own")

    def raise_own(file: BinaryIO) -> None:
        file.write(CONTENT)
        raise own

    with pytest.raises(OSError, match="the sink's own") as caught:
        write_output(outputs, SOURCE, "t.txt", raise_own)
    assert own is caught.value
    assert [] == names(outputs)


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (errno.ENOSPC, FULL),
        (
            errno.EDQUOT,
            "the disk quota of the volume is used up; free some space or raise the quota",
        ),
        (errno.EACCES, "no permission to write; check the owner and mode of the folder"),
        (errno.EPERM, "no permission to write; check the owner and mode of the folder"),
        (errno.EROFS, "the volume is mounted read-only"),
        (errno.EIO, "the volume reports an input/output error; check the disk"),
        (errno.ENOTDIR, "this is a file, but a folder is needed"),
        (errno.EEXIST, "this is a file, but a folder is needed"),
        (errno.EMFILE, "Too many open files"),
    ],
)
def test_errors_of_a_volume_become_sentences(number: int, sentence: str) -> None:
    with pytest.raises(VolumeError) as caught, naming_volume("/data/out"):
        raise OSError(number, os.strerror(number))
    assert f"/data/out: {sentence}" == str(caught.value)


def test_an_error_without_a_number_keeps_its_message() -> None:
    with pytest.raises(VolumeError, match="/data: odd"), naming_volume("/data"):
        raise OSError("odd")


@pytest.mark.parametrize("at", ["output", "output/abc", f"output/{FOLDER}"])
def test_a_file_in_place_of_a_folder_is_reported(
    tmp_path: Path, outputs: LocalOutputs, at: str
) -> None:
    path = tmp_path / at
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("in the way")
    with pytest.raises(VolumeError, match="this is a file, but a folder is needed"):
        write_output(outputs, SOURCE, "t.txt", spell(CONTENT))


def test_an_unwritable_folder_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(VolumeError, match="no permission to write"):
        make_folder(tmp_path / "ledger")


@pytest.mark.parametrize(
    ("keep", "left"),
    [({"a", "b"}, {"a", "b"}), ({"b"}, {"b"}), ({"b", "z"}, {"b"}), ((), None)],
)
def test_other_files_are_removed(
    outputs: LocalOutputs, keep: set[str], left: set[str] | None
) -> None:
    neighbour = bytes(16)
    for source in (SOURCE, neighbour):
        for name in "abc":
            write_output(outputs, source, name, spell(CONTENT))
    (outputs.root / FOLDER / "folder").mkdir()
    assert 4 - len(left or ()) == outputs.remove_others(SOURCE, keep)
    folder = outputs.root / FOLDER
    assert left == ({path.name for path in folder.iterdir()} if folder.exists() else None)
    assert 3 == len(list((outputs.root / name_source_folder(neighbour)).iterdir()))


def test_a_missing_folder_needs_no_removal(outputs: LocalOutputs) -> None:
    assert 0 == outputs.remove_others(SOURCE, ())
    assert [] == names(outputs)
    assert 0 == outputs.sweep("ours")


def test_leftovers_that_cannot_be_removed_are_reported(
    outputs: LocalOutputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_output(outputs, SOURCE, "t.txt", spell(CONTENT))

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "read-only")

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(VolumeError, match="the volume is mounted read-only"):
        outputs.remove_others(SOURCE, ())


def test_a_sweep_removes_only_the_owners_temporary_files(outputs: LocalOutputs) -> None:
    write_output(outputs, SOURCE, "t.txt", spell(CONTENT))
    for owner in ("ours", "theirs", "oursandmore"):
        for number in range(3):
            (outputs.root / TEMPORARY / f"{owner}-0001-{number}").touch()
    assert 3 == outputs.sweep("ours")
    left = {Path(name).name.partition("-")[0] for name in names(outputs)}
    assert left == {"t.txt", "theirs", "oursandmore"}


def test_a_missing_file_has_no_digest(outputs: LocalOutputs) -> None:
    with pytest.raises(FileNotFoundError):
        outputs.digest(f"{FOLDER}/t.txt")


def test_a_large_file_is_digested_piece_by_piece(outputs: LocalOutputs) -> None:
    content = bytes(range(256)) * 10_000
    write_output(outputs, SOURCE, "t.bin", spell(content))
    assert digest_of(content) == outputs.digest(f"{FOLDER}/t.bin")


@given(st.lists(st.binary(), max_size=8))
def test_a_hashing_file_counts_and_digests_what_passes(pieces: list[bytes]) -> None:
    target = io.BytesIO()
    file = HashingFile(target, "place")
    for piece in pieces:
        assert len(piece) == file.write(piece)
    content = b"".join(pieces)
    assert (content, len(content)) == (target.getvalue(), file.tell())
    assert Content(len(content), digest_of(content)) == file.finish()


def test_a_hashing_file_counts_bytes_of_wider_buffers() -> None:
    file = HashingFile(io.BytesIO(), "place")
    file.write(memoryview(b"abcdefgh").cast("Q"))
    assert Content(8, digest_of(b"abcdefgh")) == file.finish()


def test_arrow_can_write_through_a_hashing_file(outputs: LocalOutputs) -> None:
    table = pa.table({"text": ["a", "b"]})
    write_output(outputs, SOURCE, "t.parquet", lambda file: pq.write_table(table, file))
    assert table == pq.read_table(outputs.root / FOLDER / "t.parquet")


def test_a_pipeline_has_a_folder_of_its_own(tmp_path: Path) -> None:
    folder = PipelineFolder.on_volume(tmp_path, "team", "clips")
    places = {folder.ledger, folder.output, folder.writers_lock, folder.attempt(7)}
    assert {
        "team/clips/" + name for name in ("ledger", "output", "writers.lock", "attempts/0007")
    } == {str(place.relative_to(tmp_path)) for place in places}


@pytest.mark.parametrize("is_synced_whole", [False, True], ids=["each", "whole"])
@pytest.mark.parametrize("count", [1, SYNCED_WHOLE_FROM, GROUP_FILES + 1])
def test_the_outputs_of_a_group_exist_at_its_end(
    tmp_path: Path, count: int, *, is_synced_whole: bool
) -> None:
    outputs = LocalOutputs(tmp_path / "output", "0001-7", is_synced_whole=is_synced_whole)
    write_output(outputs, SOURCE, "first.txt", spell(CONTENT))
    handles = len(os.listdir("/proc/self/fd"))
    with outputs.grouped() as group:
        for number in range(count):
            group.write(number.to_bytes(16, "big"), f"{number}.txt", spell(b"%d" % number))
    for number in range(count):
        name = f"{name_source_folder(number.to_bytes(16, 'big'))}/{number}.txt"
        assert b"%d" % number == (outputs.root / name).read_bytes()
    assert count + 1 == len(names(outputs))
    assert handles == len(os.listdir("/proc/self/fd"))


def test_an_error_of_one_output_does_not_affect_its_group(outputs: LocalOutputs) -> None:
    def raise_own(file: BinaryIO) -> None:
        file.write(CONTENT)
        raise LookupError

    with outputs.grouped() as group:
        group.write(SOURCE, "a.txt", spell(CONTENT))
        with pytest.raises(LookupError):
            group.write(SOURCE, "b.txt", raise_own)
        group.write(SOURCE, "c.txt", spell(CONTENT))
    assert [f"{FOLDER}/a.txt", f"{FOLDER}/c.txt"] == names(outputs)


def test_a_group_that_raises_leaves_nothing(outputs: LocalOutputs) -> None:
    def write_and_raise() -> None:
        with outputs.grouped() as group:
            group.write(SOURCE, "a.txt", spell(CONTENT))
            raise LookupError

    with pytest.raises(LookupError):
        write_and_raise()
    assert [] == names(outputs)


def test_a_failed_sync_is_reported(tmp_path: Path) -> None:
    closed = os.open(tmp_path, os.O_RDONLY)
    os.close(closed)
    with pytest.raises(OSError, match="Bad file descriptor"):
        sync_filesystem(closed)
