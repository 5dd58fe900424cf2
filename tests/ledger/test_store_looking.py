"""A reader without a lock, as on a read-only volume, reads while another process writes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from ledger_builders import finish_of, listed, output_of
from strandline.ledger.errors import LedgerInUseError
from strandline.ledger.records.entries import Change
from strandline.ledger.store.reading import reader as reader_module
from strandline.ledger.store.reading.portions import read_portion
from strandline.ledger.store.store import Store

WRITE = """
import sys
from pathlib import Path
from strandline.ledger.records.entries import Change
from strandline.ledger.store.reading.portions import read_portion
from strandline.ledger.store.store import Store

store = Store(Path(sys.argv[1]))
for line in sys.stdin:
    store.write(Change(meta={"beat": line}))
    print("written", flush=True)
store.close()
"""


class Writer(NamedTuple):
    """Another process that writes the ledger."""

    process: subprocess.Popen[str]

    def write(self) -> None:
        """Make the process commit once."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("once\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "written\n"


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    """Yield a process that writes to a ledger with one finished source."""
    source = listed("a source")
    with closing(Store(tmp_path / "ledger")) as store:
        store.write(Change(finish=[finish_of(source, output_of(source))]))
    command = [sys.executable, "-c", WRITE, str(tmp_path / "ledger")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Writer(process)


@pytest.fixture
def unlocked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make readers assume that the volume is mounted read-only."""
    monkeypatch.setattr(reader_module, "is_mounted_readonly", lambda _: True)


def interrupt_reading(monkeypatch: pytest.MonkeyPatch, writer: Writer, times: int) -> None:
    """Make a commit interrupt each of the next reads of a portion."""
    left = iter(range(times))

    def read(*arguments: object) -> object:
        portion = read_portion(*arguments)  # type: ignore[arg-type]
        if next(left, None) is not None:
            writer.write()
        return portion

    monkeypatch.setattr(reader_module, "read_portion", read)


def read_keys(tmp_path: Path) -> list[str]:
    with closing(Store(tmp_path / "ledger", readonly=True)) as reader:
        return [record.key for _, _, record in reader.list_records()]


@pytest.mark.usefixtures("unlocked")
def test_a_portion_changed_during_reading_is_read_again(
    writer: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt_reading(monkeypatch, writer, times=3)
    assert read_keys(tmp_path) == ["a source"]


@pytest.mark.usefixtures("unlocked")
def test_a_reader_reports_continuous_writes(
    writer: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt_reading(monkeypatch, writer, times=1000)
    with pytest.raises(LedgerInUseError, match="written during a read"):
        read_keys(tmp_path)


def test_with_a_lock_nothing_is_read_again(
    writer: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt_reading(monkeypatch, writer, times=1000)
    assert read_keys(tmp_path) == ["a source"]
