"""Files shared by several sources are in a separate folder, and are complete or absent too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import fsspec
import pytest

from output_builders import write_output
from power_loss import Disk
from strandline.plan.receipt import Output, SharedPart
from strandline.storage.errors import VolumeError
from strandline.storage.outputs.disk.local_outputs import LocalOutputs
from strandline.storage.outputs.names import name_output, name_shared
from strandline.storage.outputs.ports import OutputStore
from strandline.storage.outputs.remote import RemoteOutputs

FILE = bytes.fromhex("abcdef0123456789abcdef0123456789")
OTHER = bytes(16)
SOURCE = bytes([7] * 16)
NAME = "shared/abc/abcdef0123456789abcdef0123456789.txt"
CONTENT = b"some rows\n"


@pytest.fixture(params=["local", "remote"])
def outputs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OutputStore]:
    if request.param == "local":
        yield LocalOutputs(tmp_path / "out", "0001-7")
        return
    memory = fsspec.filesystem("memory")
    yield RemoteOutputs("memory://bucket/out/")
    memory.store.clear()
    memory.pseudo_dirs[:] = [""]


def spell(file: BinaryIO) -> None:
    file.write(CONTENT)


def write(outputs: OutputStore, file: bytes) -> None:
    with outputs.grouped() as group:
        written = group.write_shared(file, ".txt", spell)
    assert written.size == len(CONTENT)


def test_a_shared_file_is_listed_digested_and_read(outputs: OutputStore) -> None:
    write(outputs, FILE)
    write_output(outputs, SOURCE, "t.txt", spell)
    assert name_shared(FILE, ".txt") == NAME
    assert outputs.list_shared() == [NAME]
    assert NAME in dict(outputs.list_names())
    with outputs.open_shared(NAME) as file:
        file.seek(5)
        assert file.read() == CONTENT[5:]


def test_a_part_is_named_by_its_file() -> None:
    own = Output(b"t" * 16, ".txt", 1, b"", 1)
    shared = own._replace(part=SharedPart(FILE, 0, 1, 1))
    assert name_output(SOURCE, shared) == NAME
    assert name_output(SOURCE, own).startswith(f"070/{SOURCE.hex()}/")


def test_no_shared_files_exist_before_a_write(outputs: OutputStore) -> None:
    assert outputs.list_shared() == []


def test_only_the_removed_file_is_gone(outputs: OutputStore) -> None:
    write(outputs, FILE)
    write(outputs, OTHER)
    outputs.remove_shared(NAME)
    outputs.remove_shared(NAME)
    assert outputs.list_shared() == [name_shared(OTHER, ".txt")]


def test_leftovers_of_a_source_do_not_include_shared_files(outputs: OutputStore) -> None:
    write(outputs, FILE)
    outputs.remove_others(FILE, ())
    assert outputs.list_shared() == [NAME]


def test_a_missing_file_is_reported_by_the_store(outputs: OutputStore) -> None:
    write(outputs, OTHER)
    with pytest.raises(VolumeError), outputs.open_shared(NAME):
        pass


def test_a_shared_file_survives_a_power_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "volume").mkdir()
    disk = Disk(tmp_path / "volume", monkeypatch)
    write(LocalOutputs(tmp_path / "volume" / "out", "0001-7"), FILE)
    left = disk.lose_power(tmp_path / "left")
    disk.close()
    assert (left / "out" / NAME).read_bytes() == CONTENT
