"""Folders are durable before anything depends on them, even if their creator died."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from example_counts import scale_examples
from output_builders import write_output
from power_loss import Disk
from strandline.storage import faults
from strandline.storage.layout import make_durable, sync_folder
from strandline.storage.outputs.disk.local_outputs import LocalOutputs
from strandline.storage.outputs.names import name_source_folder
from strandline.storage.outputs.ownership import Owner, claim_location, read_owner

SOURCE = bytes.fromhex("abcdef0123456789abcdef0123456789")
NEIGHBOUR = bytes.fromhex("abc0000000000000abcdef0123456789")
ELSEWHERE = bytes.fromhex("0000000000000000abcdef0123456789")
CONTENT = b"some rows\n"


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    (tmp_path / "volume").mkdir()
    return tmp_path / "volume"


@pytest.fixture
def disk(volume: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    disk = Disk(volume, monkeypatch)
    yield disk
    disk.close()


def spell(file: BinaryIO) -> None:
    file.write(CONTENT)


def write(root: Path, *sources: bytes, name: str = "t.txt") -> None:
    """Write one output per source, all in one process."""
    outputs = LocalOutputs(root, "0001-7")
    for source in sources:
        write_output(outputs, source, name, spell)


def read(root: Path, source: bytes = SOURCE, name: str = "t.txt") -> bytes | None:
    path = root / name_source_folder(source) / name
    return path.read_bytes() if path.exists() else None


class TestTheDiskItself:
    """The simulated disk keeps exactly the data that a real disk must keep."""

    def test_synced_data_survives(self, volume: Path, disk: Disk, tmp_path: Path) -> None:
        with (volume / "a").open("wb") as file:
            file.write(CONTENT)
            file.flush()
            os.fsync(file.fileno())
            file.write(b"more")
        (volume / "f").mkdir()
        sync_folder(volume)
        (volume / "a").rename(volume / "b")
        left = disk.lose_power(tmp_path / "left")
        assert CONTENT == (left / "a").read_bytes()
        assert not (left / "b").exists()

    def test_an_unsynced_name_is_lost(self, volume: Path, disk: Disk, tmp_path: Path) -> None:
        with (volume / "a").open("wb") as file:
            file.write(CONTENT)
            file.flush()
            os.fsync(file.fileno())
        assert [] == list(disk.lose_power(tmp_path / "left").iterdir())

    def test_unsynced_bytes_are_lost(self, volume: Path, disk: Disk, tmp_path: Path) -> None:
        (volume / "a").write_bytes(CONTENT)
        sync_folder(volume)
        assert b"" == (disk.lose_power(tmp_path / "left") / "a").read_bytes()

    def test_a_folder_is_lost_with_all_in_it(
        self, volume: Path, disk: Disk, tmp_path: Path
    ) -> None:
        (volume / "f/g").mkdir(parents=True)
        sync_folder(volume / "f/g")
        sync_folder(volume / "f")
        assert [] == list(disk.lose_power(tmp_path / "left").iterdir())


@pytest.mark.parametrize("below", ["out", "a/b/out"])
def test_the_root_of_outputs_survives(volume: Path, disk: Disk, tmp_path: Path, below: str) -> None:
    """The root's own name and the names of all folders created for it also survive."""
    write(volume / below, SOURCE)
    assert CONTENT == read(disk.lose_power(tmp_path / "left") / below)


MADE = [
    "out",
    "out/.tmp",
    f"out/{name_source_folder(SOURCE)[:3]}",
    f"out/{name_source_folder(SOURCE)}",
]


@pytest.mark.parametrize("made", MADE, ids=["root", "temporary", "fan-out", "source"])
def test_an_unsynced_folder_of_another_process_survives(
    volume: Path, disk: Disk, tmp_path: Path, made: str
) -> None:
    """Another process may have been killed before it could sync the folder."""
    (volume / made).mkdir(parents=True)
    write(volume / "out", SOURCE)
    assert CONTENT == read(disk.lose_power(tmp_path / "left") / "out")


@pytest.mark.parametrize("source", [SOURCE, NEIGHBOUR, ELSEWHERE], ids=["same", "near", "far"])
def test_a_later_output_of_one_process_survives_too(
    volume: Path, disk: Disk, tmp_path: Path, source: bytes
) -> None:
    write(volume / "out", SOURCE, source)
    left = disk.lose_power(tmp_path / "left") / "out"
    assert CONTENT == read(left) == read(left, source)


SOURCES = st.sampled_from([SOURCE, NEIGHBOUR, ELSEWHERE])


@settings(max_examples=scale_examples(30), deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.lists(SOURCES, min_size=1, max_size=12), st.booleans()),
        max_size=8,
    ),
    st.booleans(),
)
def test_acknowledged_writes_of_any_process_survive(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[int, list[bytes], bool]],
    is_synced_whole: bool,
) -> None:
    """Three processes write groups, or create a folder and are killed before the sync."""
    place = tmp_path_factory.mktemp("whoever")
    (place / "volume").mkdir()
    with pytest.MonkeyPatch.context() as monkeypatch:
        disk = Disk(place / "volume", monkeypatch)
        root, told = place / "volume/out", set[tuple[bytes, str]]()
        begin = partial(LocalOutputs, root, is_synced_whole=is_synced_whole)
        processes = [begin(str(number)) for number in range(3)]
        for process, sources, is_killed in steps:
            if is_killed:
                (root / name_source_folder(sources[0])).mkdir(parents=True, exist_ok=True)
                processes[process] = begin(str(process))
                continue
            names = [f"{process}-{number}.txt" for number in range(len(sources))]
            with processes[process].grouped() as group:
                for source, name in zip(sources, names, strict=True):
                    group.write(source, name, spell)
            told.update(zip(sources, names, strict=True))
        left = disk.lose_power(place / "left")
        disk.close()
    assert all(read(left / "out", *written) == CONTENT for written in told)


class PowerLostError(Exception):
    """Ends a process at the time of the power loss."""


@settings(max_examples=scale_examples(50), deadline=None)
@given(st.lists(SOURCES, min_size=1, max_size=12), st.integers(1, 60), st.booleans())
def test_law_named_files_are_complete_after_any_power_loss(
    tmp_path_factory: pytest.TempPathFactory,
    sources: list[bytes],
    last_step: int,
    is_synced_whole: bool,
) -> None:
    place = tmp_path_factory.mktemp("whenever")
    (place / "volume").mkdir()
    steps = itertools.count(1)

    with pytest.MonkeyPatch.context() as monkeypatch:
        disk = Disk(place / "volume", monkeypatch)

        def reach(_step: str) -> None:
            if next(steps) == last_step:
                disk.lose_power(place / "left")
                raise PowerLostError

        monkeypatch.setattr(faults, "reach", reach)
        outputs = LocalOutputs(place / "volume/out", is_synced_whole=is_synced_whole)
        with suppress(PowerLostError), outputs.grouped() as group:
            for number, source in enumerate(sources):
                group.write(source, f"{number}.txt", spell)
        disk.close()
    named = (place / "left/out").glob("*/*/*.txt")
    assert all(path.read_bytes() == CONTENT for path in named)


def test_a_source_folder_that_was_removed_is_made_again(tmp_path: Path) -> None:
    outputs = LocalOutputs(tmp_path / "out", "0001-7")
    for _ in range(2):
        write_output(outputs, SOURCE, "t.txt", spell)
        assert 1 == outputs.remove_others(SOURCE, ())
        assert read(tmp_path / "out") is None


def test_an_owners_file_survives(volume: Path, disk: Disk, tmp_path: Path) -> None:
    owner = Owner("1" * 32, "default/clips")
    claim_location(str(volume / "a/out"), owner)
    assert owner == read_owner(str(disk.lose_power(tmp_path / "left") / "a/out"))


@pytest.mark.parametrize("made", ["", "default", "default/clips", "default/clips/ledger"])
def test_a_folder_survives_with_its_parents(
    volume: Path, disk: Disk, tmp_path: Path, made: str
) -> None:
    (volume / made).mkdir(parents=True, exist_ok=True)
    make_durable(volume / "default/clips/ledger")
    sync_folder(volume / "default/clips/ledger")
    assert (disk.lose_power(tmp_path / "left") / "default/clips/ledger").is_dir()
