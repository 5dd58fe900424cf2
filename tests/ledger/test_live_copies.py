"""Each copy of a ledger that another process writes is one committed state."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ledger_builders import finish_of, listed, opened, output_of
from strandline.ledger.errors import LedgerInUseError
from strandline.ledger.records.entries import Change
from strandline.ledger.store.environment.environment import LedgerEnvironment
from strandline.ledger.store.reading import reader as reader_module
from strandline.ledger.store.store import Store
from strandline.storage.errors import VolumeError

SMALL_MAP = 1 << 18
# Each commit writes one number in two places. `grow` makes the ledger larger than the reader's map.
WRITE = f"""
import sys
from pathlib import Path
from strandline.ledger.records.entries import Change
from strandline.ledger.store.store import Store

store, number = Store(Path(sys.argv[1]), map_size={SMALL_MAP}), 0
for line in sys.stdin:
    padding = "x" * ({4 * SMALL_MAP} if line == "grow\\n" else 100)
    for _ in range(1 if line == "grow\\n" else 50):
        number += 1
        store.write(Change(meta={{"one": number, "padding": padding, "other": number}}))
    print("written", flush=True)
store.close()
"""


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Yield another process that writes the ledger on request."""
    with closing(Store(tmp_path / "ledger", map_size=SMALL_MAP)) as store:
        store.write(Change(meta={"one": 0, "other": 0}))
    command = [sys.executable, "-c", WRITE, str(tmp_path / "ledger")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process


def send(writer: subprocess.Popen[str], line: str) -> None:
    assert writer.stdin is not None
    writer.stdin.write(line)
    writer.stdin.flush()


def await_written(writer: subprocess.Popen[str]) -> None:
    assert writer.stdout is not None
    assert writer.stdout.readline() == "written\n"


def copy_to(store: Store, folder: Path) -> Path:
    """Copy a ledger to a folder, where the copy is a separate ledger."""
    folder.mkdir()
    with (folder / "data.mdb").open("wb") as file:
        store.copy(file.fileno())
    return folder


def read_numbers(path: Path) -> tuple[int, int]:
    with opened(path, readonly=True) as store:
        return store.read_meta("one"), store.read_meta("other")


def test_law_a_copy_is_one_committed_state_despite_concurrent_writes(
    writer: subprocess.Popen[str], tmp_path: Path
) -> None:
    with opened(tmp_path / "ledger", readonly=True) as store:
        send(writer, "go\n" * 4)
        found = [read_numbers(copy_to(store, tmp_path / f"copy-{n}")) for n in range(12)]
        for _ in range(4):
            await_written(writer)
        found.append(read_numbers(copy_to(store, tmp_path / "last")))
    assert all(one == other for one, other in found)
    assert found == sorted(found)
    assert found[-1] == (200, 200)


def test_a_copy_is_made_after_a_writer_has_grown_the_map(
    writer: subprocess.Popen[str], tmp_path: Path
) -> None:
    with opened(tmp_path / "ledger", readonly=True, map_size=SMALL_MAP) as store:
        send(writer, "grow\n")
        await_written(writer)
        assert read_numbers(copy_to(store, tmp_path / "copy")) == (1, 1)


def test_a_copy_without_a_lock_is_refused_if_the_ledger_was_written_meanwhile(
    writer: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "is_mounted_readonly", lambda _: True)
    with opened(tmp_path / "ledger", readonly=True) as store:
        assert read_numbers(copy_to(store, tmp_path / "first")) == (0, 0)
        copy = LedgerEnvironment.copy

        def copy_beside_a_writer(environment: LedgerEnvironment, handle: int) -> None:
            copy(environment, handle)
            send(writer, "go\n")
            await_written(writer)

        monkeypatch.setattr(LedgerEnvironment, "copy", copy_beside_a_writer)
        with pytest.raises(LedgerInUseError, match="written during a read"):
            copy_to(store, tmp_path / "second")


def test_a_copy_has_every_record(tmp_path: Path) -> None:
    sources = [listed(f"source {number}") for number in range(300)]
    with opened(tmp_path / "ledger") as store:
        store.write(Change(finish=[finish_of(each, output_of(each)) for each in sources]))
        copy_to(store, tmp_path / "copy")
        records = sorted(store.list_records())
    with opened(tmp_path / "copy", readonly=True) as copy:
        assert sorted(copy.list_records()) == records
        assert copy.count()["finished"] == 300


def test_a_full_disk_is_reported_for_the_copy_and_not_the_ledger(tmp_path: Path) -> None:
    with opened(tmp_path / "ledger") as store:
        handle = os.open("/dev/full", os.O_WRONLY)
        try:
            with pytest.raises(VolumeError, match="its copy can't be written: No space left"):
                store.copy(handle)
        finally:
            os.close(handle)
        assert store.count()["finished"] == 0
