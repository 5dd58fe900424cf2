"""Outputs at an fsspec URL have the same guarantees as outputs in a folder."""

from __future__ import annotations

import errno
import io
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

import fsspec
import pytest

from output_builders import write_output
from strandline.storage.errors import VolumeError
from strandline.storage.outputs.disk.local_outputs import LocalOutputs
from strandline.storage.outputs.hashing import Content
from strandline.storage.outputs.remote import RemoteOutputs, open_outputs

SOURCE = bytes.fromhex("abcdef0123456789abcdef0123456789")
FOLDER = "abc/abcdef0123456789abcdef0123456789"
CONTENT = b"some rows\n"


@pytest.fixture
def outputs() -> Iterator[RemoteOutputs]:
    memory = fsspec.filesystem("memory")
    yield RemoteOutputs("memory://bucket/out/")
    memory.store.clear()
    memory.pseudo_dirs[:] = [""]


def write(outputs: RemoteOutputs, source: bytes, name: str, content: bytes = CONTENT) -> Content:
    return write_output(outputs, source, name, lambda file: _spell(file, content))


def _spell(file: object, content: bytes) -> None:
    file.write(content)  # type: ignore[attr-defined]


def refuse(*_: object, **__: object) -> None:
    raise OSError(errno.EACCES, "Access Denied")


def test_a_written_output_exists_and_is_described(outputs: RemoteOutputs) -> None:
    written = write(outputs, SOURCE, "t.txt")
    assert Content(len(CONTENT), blake2b(CONTENT, digest_size=16).digest()) == written
    assert [(f"{FOLDER}/t.txt", len(CONTENT))] == list(outputs.list_names())
    assert written.digest == outputs.digest(f"{FOLDER}/t.txt")
    assert CONTENT == fsspec.filesystem("memory").cat_file(f"/bucket/out/{FOLDER}/t.txt")


def test_a_replay_overwrites(outputs: RemoteOutputs) -> None:
    write(outputs, SOURCE, "t.txt", b"the first and longer try")
    write(outputs, SOURCE, "t.txt")
    assert [(f"{FOLDER}/t.txt", len(CONTENT))] == list(outputs.list_names())


def test_other_files_are_removed(outputs: RemoteOutputs) -> None:
    neighbour = bytes(16)
    for source in (SOURCE, neighbour):
        for name in "abc":
            write(outputs, source, name)
    assert 2 == outputs.remove_others(SOURCE, {"b", "z"})
    assert 0 == outputs.remove_others(SOURCE, {"b"})
    left = sorted(name for name, _ in outputs.list_names() if name.startswith(FOLDER))
    assert [f"{FOLDER}/b"] == left
    assert 1 == outputs.remove_others(SOURCE, ())
    assert 3 == len(list(outputs.list_names()))


def test_a_missing_folder_needs_no_removal(outputs: RemoteOutputs) -> None:
    assert 0 == outputs.remove_others(SOURCE, ())
    assert [] == list(outputs.list_names())
    assert 0 == outputs.sweep("ours")


def test_a_missing_file_has_no_digest(outputs: RemoteOutputs) -> None:
    with pytest.raises(FileNotFoundError):
        outputs.digest(f"{FOLDER}/t.txt")


def test_errors_of_the_sink_itself_are_unchanged_and_upload_nothing(outputs: RemoteOutputs) -> None:
    own = OSError(errno.ENOSPC, "the sink's own")

    def raise_own(file: io.BufferedIOBase) -> None:
        file.write(CONTENT)
        raise own

    with pytest.raises(OSError, match="the sink's own") as caught:
        write_output(outputs, SOURCE, "t.txt", raise_own)  # type: ignore[arg-type]
    assert own is caught.value
    assert [] == list(outputs.list_names())


@pytest.mark.parametrize("call", ["pipe_file", "makedirs"])
def test_an_unwritable_place_is_reported(
    outputs: RemoteOutputs, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    monkeypatch.setattr(outputs._filesystem, call, refuse, raising=True)
    with pytest.raises(VolumeError, match=r"memory://bucket/out/: can't be written to \(.*Denied"):
        write(outputs, SOURCE, "t.txt")


@pytest.mark.parametrize("call", ["find", "rm"])
def test_a_place_without_delete_permission_is_reported(
    outputs: RemoteOutputs, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    write(outputs, SOURCE, "t.txt")
    monkeypatch.setattr(outputs._filesystem, call, refuse, raising=True)
    with pytest.raises(VolumeError, match="memory://bucket/out/: can't be written to"):
        outputs.remove_others(SOURCE, ())


@pytest.mark.parametrize("step", ["output.opened", "output.written", "output.renamed"])
def test_a_killed_upload_is_complete_or_absent(
    outputs: RemoteOutputs, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def die(reached: str) -> None:
        if reached == step:
            raise KeyboardInterrupt

    monkeypatch.setattr("strandline.storage.faults.reach", die)
    with pytest.raises(KeyboardInterrupt):
        write(outputs, SOURCE, "t.txt")
    whole = [(f"{FOLDER}/t.txt", len(CONTENT))]
    assert (whole if step == "output.renamed" else []) == list(outputs.list_names())


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_paths_and_file_urls_are_folders(tmp_path: Path, prefix: str) -> None:
    outputs = open_outputs(f"{prefix}{tmp_path}/out", "0001")
    assert isinstance(outputs, LocalOutputs)
    assert tmp_path / "out" == outputs.root


def test_other_urls_are_remote(outputs: RemoteOutputs) -> None:
    again = open_outputs("memory://bucket/out")
    assert isinstance(again, RemoteOutputs)
    write(outputs, SOURCE, "t.txt")
    assert list(outputs.list_names()) == list(again.list_names())


def test_a_relative_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outputs = open_outputs("out")
    assert isinstance(outputs, LocalOutputs)
    assert tmp_path / "out" == outputs.root
