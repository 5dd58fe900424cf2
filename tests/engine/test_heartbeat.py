"""An engine that works shows that it lives, to whoever looks at the ledger or at work in flight."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from strandline.engine.heartbeat import Heartbeat
from strandline.engine.ports import Control
from strandline.ledger.liveness import BEAT_SECONDS, HEARTBEAT_SECONDS
from strandline.storage.inflight import InFlightTable


@dataclass
class Watched:
    """A ledger that writes down when it was told of life."""

    now: float = 0.0
    beats: list[float] = field(default_factory=list)

    def beat(self) -> None:
        self.beats.append(self.now)


@given(st.lists(st.integers(1, int(BEAT_SECONDS)), max_size=200))
def test_law_whoever_asks_often_is_never_taken_for_dead(pauses: list[int]) -> None:
    watched = Watched()
    heart = Heartbeat(watched.beat, Control(lambda: False, print, lambda: watched.now))
    heart.beat()
    for pause in pauses:
        watched.now += pause
        heart.beat()
    gaps = [
        later - earlier
        for earlier, later in zip(watched.beats, [*watched.beats[1:], watched.now], strict=True)
    ]
    assert watched.beats[0] == 0.0
    assert max(gaps) < HEARTBEAT_SECONDS
    assert all(gap >= BEAT_SECONDS for gap in gaps[:-1])


def test_the_table_of_work_in_flight_shows_it_too(tmp_path: Path) -> None:
    path, watched = tmp_path / "table", Watched()
    table = InFlightTable(path)
    heart = Heartbeat(
        watched.beat, Control(lambda: False, print, lambda: watched.now, inflight=table)
    )
    for now, is_shown in ((0.0, True), (BEAT_SECONDS / 2, False), (BEAT_SECONDS, True)):
        os.utime(path, (1, 1))
        watched.now = now
        heart.beat()
        assert (path.stat().st_mtime > 1) == is_shown
    table.close()
