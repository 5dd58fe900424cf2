"""Known defects of delta counters, which must not occur in the tally.

The first cases also run against a delta counter, to prove that the counter fails them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from strandline.ledger.access.lease import Claim, Claimant, open_attempt
from strandline.ledger.errors import LedgerError
from strandline.ledger.records.entries import (
    HAS_FAILED,
    QUARANTINED,
    RELEASED,
    SKIPPED,
    ListedSource,
)
from strandline.ledger.store.store import Store
from strandline.ledger.tally import Tally
from strandline.ledger.writer.writer import LedgerWriter
from strandline.plan.fingerprint import Fingerprint
from strandline.plan.receipt import Event, Failure, Output
from strandline.plan.token import derive_child, derive_root, digest_key, digest_version
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.disk.local_outputs import LocalOutputs
from strandline.storage.volume.locks import Process

SOURCE = digest_key("clip.mp4")
VERSION = digest_version("1")
ROOT = derive_root(SOURCE, VERSION)
CHILDREN = tuple(derive_child([ROOT], "split", slot) for slot in range(3))
ANNOUNCED = Event(SOURCE, (), (ROOT,))
FANNED_OUT = Event(SOURCE, (ROOT,), CHILDREN)
WRITTEN = [Event(SOURCE, (child,), ()) for child in CHILDREN]
OVERTAKEN = [ANNOUNCED, WRITTEN[0], FANNED_OUT, *WRITTEN[1:]]  # the sink is early


class DeltaCounter:
    """A delta counter: a number per source. At zero the source counts as complete."""

    def __init__(self, id_bytes: int = 16) -> None:
        self._id_bytes = id_bytes
        self._pending: dict[bytes, int] = {}
        self._applied: set[Event] = set()
        self._complete: set[bytes] = set()

    def count(self, events: Iterable[Event]) -> list[tuple[bytes, None]]:
        finished = []
        for event in events:
            if event in self._applied:
                continue
            self._applied.add(event)
            name = event.source[: self._id_bytes]
            delta = len(event.children) - len(event.settled)
            if name in self._complete and delta > 0:
                self._complete.remove(name)  # revokes the completion but loses the delta
                continue
            self._pending[name] = self._pending.get(name, 0) + delta
            if self._pending[name] == 0:
                self._complete.add(name)
                finished.append((name, None))
        return finished

    def is_complete(self, source: bytes) -> bool:
        return source[: self._id_bytes] in self._complete


def finishes(counter: DeltaCounter | Tally, events: Iterable[Event]) -> list[int]:
    """Return the positions in the order of arrival at which a source became finished."""
    return [place for place, event in enumerate(events) for _ in counter.count([event])]


def new_tally() -> Tally:
    return Tally(lambda _: False)


def weigh(value: Any) -> int:
    """Return the number of objects that an object holds, recursively."""
    if isinstance(value, (LedgerWriter, Tally, DeltaCounter)):
        return sum(map(weigh, vars(value).values()))
    if isinstance(value, dict):
        return sum(1 + weigh(inner) for inner in value.values())
    if isinstance(value, (list, set, tuple)):
        return sum(1 + weigh(inner) for inner in value)
    return 0


@contextmanager
def opened(path: Path, map_size: int = 1 << 26) -> Iterator[Store]:
    store = Store(path / "ledger", map_size=map_size)
    try:
        yield store
    finally:
        store.close()


def keeper_of(store: Store, path: Path, attempt: int = 1) -> LedgerWriter:
    return LedgerWriter(store, LocalOutputs(path / "output"), attempt, lambda: 0.0)


def listed(key: str, ordinal: int = 0, version: str = "1") -> ListedSource:
    return ListedSource(digest_key(key), digest_version(version), key, ordinal)


def settle(source: ListedSource) -> Event:
    return Event(source.source, (derive_root(source.source, source.version),), ())


def claim(pipeline: str = "default/clips", **parts: Any) -> Claim:
    return Claim(pipeline, "", Fingerprint(repr(sorted(parts.items())), parts))


def claimant(uid: str) -> Claimant:
    return Claimant(uid, "boot", Process(1, 1), 0.0)


def test_premature_completion() -> None:
    assert 1 == finishes(DeltaCounter(), OVERTAKEN)[0]  # two of three children are open
    assert [len(OVERTAKEN) - 1] == finishes(new_tally(), OVERTAKEN)


def test_stuck_source() -> None:
    rival, ours = DeltaCounter(), new_tally()
    finishes(rival, OVERTAKEN)
    finishes(ours, OVERTAKEN)
    assert not rival.is_complete(SOURCE)  # although all work is done: the counter is -2
    assert [] == list(ours.list_open())


def test_map_full(tmp_path: Path) -> None:
    sources = [listed(f"a rather long key of source {number:05}", number) for number in range(2000)]
    with opened(tmp_path, map_size=1 << 16) as store:
        writer = keeper_of(store, tmp_path)
        writer.admit(sources)
        writer.apply(1, [settle(source) for source in sources])
        assert 0 == writer.drain(1, anything_died=False).unfinished
        counts = store.count()
        assert (2000, 2000) == (counts["finished"], sum(counts.values()))


def test_id_collision() -> None:
    twin = SOURCE[:15] + bytes([SOURCE[15] ^ 1])
    both = [ANNOUNCED, ANNOUNCED._replace(source=twin)]
    drained = [FANNED_OUT, *WRITTEN]
    rival, ours = DeltaCounter(id_bytes=6), new_tally()
    rival.count(both[:1])
    rival.count(drained)
    assert rival.is_complete(twin)  # although no work on the twin was done
    ours.count(both)
    assert [SOURCE] == [source for source, _ in ours.count(drained)]
    assert [twin] == list(ours.list_open())


def test_id_collision_in_the_ledger(tmp_path: Path) -> None:
    twin = SOURCE[:15] + bytes([SOURCE[15] ^ 1])
    with opened(tmp_path) as store:
        writer = keeper_of(store, tmp_path)
        sources = [ListedSource(SOURCE, VERSION, "a", 0), ListedSource(twin, VERSION, "b", 1)]
        writer.admit(sources)
        writer.apply(1, [settle(sources[0])])
        writer.commit()
        assert {SOURCE} == set(store.find_finished([SOURCE, twin]))
        assert {twin} == set(store.find_marks([SOURCE, twin]))


def test_keys_are_digested_as_a_whole() -> None:
    keys = ["a_b_c", "x_b_c", "b_c", "c", "a_b", "a"]  # keys are not split at a separator
    assert len(keys) == len({digest_key(key) for key in keys})
    assert {16} == {len(digest_key(key)) for key in keys}


def test_unpruned_memory(tmp_path: Path) -> None:
    rival = DeltaCounter()
    weights = []
    with opened(tmp_path) as store:
        writer = keeper_of(store, tmp_path)
        for number in range(1, 6):
            sources = [listed(f"{number}-{place}", place) for place in range(50)]
            writer.admit(sources)
            writer.apply(2 * number - 1, half_done(sources[0]))
            settled = [settle(source) for source in sources[1:]]
            writer.apply(2 * number, settled, [fail(sources[0])])
            writer.commit()
            rival.count(Event(source.source, (), (b"",)) for source in sources)
            rival.count(map(settle, sources))
            weights.append((weigh(writer), weigh(rival)))
    assert {weights[0][0]} == {ours for ours, _ in weights}
    assert weights[0][1] < weights[-1][1]


def half_done(source: ListedSource) -> list[Event]:
    """Finish one of two children."""
    root = derive_root(source.source, source.version)
    output = Output(root, ".txt", 3, b"d" * 16, 1)
    return [
        Event(source.source, (root,), CHILDREN[:2]),
        Event(source.source, CHILDREN[:1], (), (output,)),
    ]


def fail(source: ListedSource) -> Failure:
    return Failure(source.source, source.key, b"", "decode", "no such codec")


def test_two_pipelines_sharing_one_place(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        open_attempt(store, claim("default/clips"), claimant("one"))
        with pytest.raises(LedgerError, match="belongs to default/clips, not to default/texts"):
            open_attempt(store, claim("default/texts"), claimant("two"))
    names = [("default", "clips"), ("default", "texts"), ("team", "clips")]
    folders = {PipelineFolder.on_volume(tmp_path, *name).ledger for name in names}
    assert len(names) == len(folders)


def test_changed_config(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        open_attempt(store, claim(minWords=5), claimant("one"))
        writer = keeper_of(store, tmp_path)
        writer.admit([listed("a.txt")])
        writer.apply(1, [settle(listed("a.txt"))])
        writer.commit()
        with pytest.raises(LedgerError, match="minWords: 5 -> 8"):
            open_attempt(store, claim(minWords=8), claimant("two"))


def test_content_identity(tmp_path: Path) -> None:
    """Only a file whose content changed is processed again, although its name is unchanged."""
    with opened(tmp_path) as store:
        first = keeper_of(store, tmp_path)
        sources = [listed("a.txt", 0), listed("b.txt", 1)]
        first.admit(sources)
        first.apply(1, [settle(source) for source in sources])
        first.commit()
        second = keeper_of(store, tmp_path, attempt=2)
        assert [SKIPPED, RELEASED] == second.admit([sources[0], listed("b.txt", 1, version="2")])
        assert {sources[0].source} == {source for source, *_ in store.list_records()}


def test_poison_is_counted_over_attempts(tmp_path: Path) -> None:
    poison = listed("poison.bin")
    with opened(tmp_path) as store:
        for attempt in (1, 2, 3):
            writer = keeper_of(store, tmp_path, attempt)
            known = HAS_FAILED if attempt > 1 else 0
            assert [RELEASED + known] == writer.admit([poison])
            writer.apply(1, [], [fail(poison)])
            writer.commit()
        assert [] == list(store.list_failures())
        assert [3] == [parked.times for _, parked in store.list_quarantined()]
        assert [QUARANTINED] == keeper_of(store, tmp_path, 4).admit([poison])
