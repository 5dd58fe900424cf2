"""Provides ledgers in a temporary folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger_builders import Clock, Desk, RecordingOutputs, RecordingStore, opened
from strandline.ledger.store.store import Store
from strandline.ledger.writer.writer import LedgerWriter


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Yield a new ledger without a lease."""
    with opened(tmp_path / "ledger") as store:
        yield store


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """Yield the first attempt on a new ledger. Its `log` has all actions in order."""
    log: list[Any] = []
    recording = RecordingStore(tmp_path / "ledger", log)
    recording.take_lease({"attempt": 1, "uid": "a"})
    outputs, clock = RecordingOutputs(log), Clock()
    yield Desk(recording, outputs, clock, LedgerWriter(recording, outputs, 1, clock), log)
    recording.close()
