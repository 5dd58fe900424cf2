"""After a crash at any step, the next run reaches the same state as a run without a crash."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from example_counts import scale_examples, spread
from ledger_builders import Clock, claim, claimant, failed, listed, opened, root_of
from output_builders import write_output
from strandline.ledger.access.lease import open_attempt
from strandline.ledger.checks.verification import verify
from strandline.ledger.gather.gather import gather
from strandline.ledger.gather.pieces import LARGE_BYTES, PieceStore
from strandline.ledger.gather.state import find_merged, read_state
from strandline.ledger.gather.verification import verify_pieces
from strandline.ledger.output_root import clean_up
from strandline.ledger.records.entries import ListedSource
from strandline.ledger.store.store import Store
from strandline.ledger.writer.writer import GROUP_SECONDS, LedgerWriter
from strandline.plan.receipt import Event, Output, Piece
from strandline.plan.token import derive_child
from strandline.storage import faults
from strandline.storage.outputs.disk.local_outputs import LocalOutputs

# All fault injection steps of the ledger, of outputs, and of gathering.
STEPS = (
    "piece.kept",
    "shard.appended",
    "shard.synced",
    "merged.written",
    "merged.synced",
    "pack.written",
    "pack.synced",
    "gather.committed",
    "gather.cleaned",
    "listing.marked",
    "output.placed",
    "output.opened",
    "output.written",
    "output.synced",
    "output.renamed",
    "source.settled",
    "commit.begun",
    "commit.cleaned",
    "commit.written",
    "commit.synced",
    "lease.written",
)
# Listings of the first attempt and of all later attempts. In the later listings, some sources have
# changed, some are missing, and some are new. One source fails in the first attempt.
EARLIER = [listed(key) for key in ("same", "changed", "gone", "failing", "shrinking")]
LATER = [
    listed("same"),
    listed("changed", version="2"),
    listed("failing", version="2"),
    listed("shrinking", version="2"),
    listed("fanned-out"),
    listed("empty"),
]


class Crash(BaseException):
    """Simulates the end of the process. Error handlers must not catch this exception."""


@dataclass
class Steps:
    """Counts the reached steps, and crashes at one of them."""

    crash_at: int | None = None
    reached: list[str] = field(default_factory=list)

    def __call__(self, step: str) -> None:
        self.reached.append(step)
        if self.crash_at == len(self.reached):
            raise Crash(step)


def crash_at(monkeypatch: pytest.MonkeyPatch, number: int | None) -> Steps:
    steps = Steps(number)
    monkeypatch.setattr("strandline.storage.faults.reach", steps)
    return steps


def piece_of(source: ListedSource, token: bytes) -> Piece:
    """Return a task's piece for one of two stages. Pieces of `fanned-out` are large."""
    line = f"{source.key} {token.hex()}\n".encode()
    if source.key == "fanned-out":
        return Piece("large", token, line * (LARGE_BYTES // len(line) + 1))
    return Piece("small", token, line)


def concatenate(paths: Sequence[Path], out: Path) -> None:
    out.write_bytes(b"".join(path.read_bytes() for path in paths))


MERGES = {"small": concatenate, "large": concatenate}


def work(writer: LedgerWriter, outputs: LocalOutputs, source: ListedSource, number: int) -> int:
    """Work on a source and report its events in two messages. Return the last message's number."""
    if source.key == "failing" and source.version == listed("", "1").version:
        writer.apply(number + 1, [], [failed(source)])
        return number + 1
    slots = {"fanned-out": 3, "shrinking": 3 if source in EARLIER else 1, "empty": 0}.get(
        source.key, 1
    )
    tokens = [derive_child([root_of(source)], "split", slot) for slot in range(slots)]
    writes = [
        Event(source.source, (token,), (), (put(outputs, source, token),)) for token in tokens
    ]
    writer.apply(number + 1, writes)
    root = root_of(source)
    left = () if source.key == "empty" else (piece_of(source, root),)
    writer.apply(number + 2, [Event(source.source, (root,), tuple(tokens), left)])
    return number + 2


def put(outputs: LocalOutputs, source: ListedSource, token: bytes) -> Output:
    content = f"{source.key} {token.hex()}".encode()

    def to_json(file: BinaryIO) -> None:
        file.write(content)

    return Output(
        token, ".txt", *write_output(outputs, source.source, f"{token.hex()}.txt", to_json), rows=1
    )


def attempt(path: Path, sources: list[ListedSource], uid: str) -> None:
    """Run an attempt as a driver does. A crash may interrupt the attempt at any step."""
    outputs = LocalOutputs(path / "output", f"ours-{uid}")
    with opened(path / "ledger", map_size=1 << 16) as store, ExitStack() as stack:
        number = open_attempt(store, claim(), claimant(uid))
        outputs.sweep("ours")
        clean_up(store, outputs)
        # Each reading advances the clock, so that groups of about two sources are committed.
        clock = Clock(step=GROUP_SECONDS / 4)
        pieces = stack.enter_context(closing(PieceStore(path / "shards", number)))
        writer = LedgerWriter(store, outputs, number, clock, deletes_vanished=True, pieces=pieces)
        message = 0
        for start in range(0, len(sources), 4):
            batch = sources[start : start + 4]
            for source, is_released in zip(batch, writer.admit(batch), strict=True):
                if is_released:
                    message = work(writer, outputs, source, message)
            gather(store, path / "shards", MERGES, is_whole=False)
        writer.end_listing(len(sources))
        writer.drain(message, anything_died=False)
        gather(store, path / "shards", MERGES, is_whole=True)


def end_state(path: Path) -> dict[str, object]:
    outputs = LocalOutputs(path / "output")
    with opened(path / "ledger", readonly=True) as store:
        state = read_state(store)
        return {
            "merged": {
                stage: find_merged(path / "shards", state, stage).read_bytes()
                for stage in state.merged
            },
            "shards": sorted(each.suffix for each in (path / "shards").iterdir()),
            "records": sorted(
                (source, entry.version, record.key, record.outputs, record.pieces and "gathered")
                for source, entry, record in store.list_records()
            ),
            "open": store.count(),
            "files": sorted((name, outputs.digest(name)) for name, _ in outputs.list_names()),
        }


def check(path: Path) -> None:
    """Check the invariants that hold after a crash at any step."""
    outputs = LocalOutputs(path / "output")
    with opened(path / "ledger") as store:
        finished, failures, marks = states(store)
        assert finished.isdisjoint(marks)
        assert finished.isdisjoint(failures)
        assert failures.isdisjoint(marks)
        assert finished == {source for source, _, _ in store.list_records()}
        assert [] == verify(store, outputs).problems  # finished sources have exactly their outputs
        assert [] == verify_pieces(store, path / "shards").problems


def states(store: Store) -> tuple[set[bytes], set[bytes], set[bytes]]:
    lists: list[Callable[[], object]] = [store.list_records, store.list_failures, store.list_marks]
    finished, failures, marks = ({item[0] for item in each()} for each in lists)  # type: ignore[attr-defined]
    return finished, failures, marks


def run(path: Path, monkeypatch: pytest.MonkeyPatch, *crashes: int | None) -> list[list[str]]:
    """Run a first attempt, one per crash, and a last one. Return the steps of each crash."""
    crash_at(monkeypatch, None)
    attempt(path, EARLIER, "first")
    reached = []
    for number, crash in enumerate(crashes):
        steps = crash_at(monkeypatch, crash)
        try:
            attempt(path, LATER, f"crash-{number}")
        except Crash:
            assert crash == len(steps.reached)
        reached.append(steps.reached)
        crash_at(monkeypatch, None)
        check(path)
    attempt(path, LATER, "last")
    check(path)
    return reached


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, object], list[str]]:
    """Return the final state of a run without a crash, and the steps of its second attempt."""
    path = tmp_path_factory.mktemp("undisturbed")
    with pytest.MonkeyPatch.context() as monkeypatch:
        (reached,) = run(path, monkeypatch, None)
    return end_state(path), reached


def test_the_attempt_reaches_every_step(undisturbed: tuple[dict[str, object], list[str]]) -> None:
    end, reached = undisturbed
    assert set(STEPS) == set(reached)
    assert set(STEPS) <= set(faults.STEPS)
    left = {"failed": 0, "inflight": 0, "quarantined": 0}
    assert {"finished": len(LATER), **left} == end["open"]


# Number of finished sources at which a ledger is converted to the format for large ledgers. With
# the first two values, the conversion is in the attempt that may crash.
LARGE = [3, 4, 99]
# A step may be reached many times: crash at this many of them at most. One crash takes 100 ms.
PASSES = scale_examples(12)


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("large", LARGE)
def test_a_crash_at_any_step_does_not_change_the_final_state(
    step: str,
    large: int,
    undisturbed: tuple[dict[str, object], list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    end, reached = undisturbed
    monkeypatch.setattr("strandline.ledger.store.environment.layout.LARGE", large)
    passes = [place for place, name in enumerate(reached, 1) if name == step]
    for number in spread(passes, PASSES if large == max(LARGE) else PASSES // 2):
        path = tmp_path / str(number)
        path.mkdir()
        ((*_, last),) = run(path, monkeypatch, number)
        assert step == last
        assert end == end_state(path)
        with opened(path / "ledger", readonly=True) as store:
            assert (1 if large > len(LATER) else 2) == store.read_meta("format")


@pytest.mark.slow
@settings(max_examples=scale_examples(15), deadline=None)
@given(crashes=st.lists(st.integers(1, 120), min_size=2, max_size=4), large=st.sampled_from(LARGE))
def test_repeated_crashes_do_not_change_the_final_state(
    crashes: list[int],
    large: int,
    undisturbed: tuple[dict[str, object], list[str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("crashes")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("strandline.ledger.store.environment.layout.LARGE", large)
        run(path, monkeypatch, *crashes)
    assert undisturbed[0] == end_state(path)
