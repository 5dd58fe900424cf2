"""Each row of a finished source is in exactly one file, despite shared files and crashes.

Between attempts, sources change, vanish, fail, and return. A sink's call may contain any number of
any sources. Receipts are lost with their workers, and processes crash at any step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger_builders import Clock, claim, claimant, failed, listed, opened, root_of
from shard_files import KINDS, make_sink, make_table, read_texts
from strandline.engine.call.stage.stage_call import StageCall
from strandline.ledger.access.lease import open_attempt
from strandline.ledger.checks.verification import verify
from strandline.ledger.output_root import clean_up, sweep_shared
from strandline.ledger.records.entries import ListedSource
from strandline.ledger.store.environment import layout
from strandline.ledger.store.store import Store
from strandline.ledger.writer.writer import GROUP_SECONDS, LedgerWriter
from strandline.plan.pipeline import StagePlan
from strandline.plan.receipt import Event
from strandline.plan.task import Lineage, Task
from strandline.plan.token import derive_child
from strandline.run.revise.rewriting import tidy_shared
from strandline.storage.outputs.disk.local_outputs import LocalOutputs
from strandline.storage.outputs.names import name_output

Listing = Mapping[str, int]  # the version of each key

KEYS = "abcdefgh"
LISTINGS = st.lists(
    st.dictionaries(st.sampled_from(KEYS), st.integers(1, 2), min_size=1), min_size=1, max_size=3
)


class Crash(BaseException):
    """Simulates the end of the process. No error handler catches this exception."""


def crash_at(monkeypatch: pytest.MonkeyPatch, number: int | None) -> None:
    """Crash at the step with this number."""
    left = [number]

    def reach(step: str) -> None:
        if left[0] is not None:
            left[0] -= 1
            if not left[0]:
                raise Crash(step)

    monkeypatch.setattr("strandline.storage.faults.reach", reach)


def rows_of(source: ListedSource) -> list[str]:
    """Return a source's rows. Sources have different numbers of rows, and sometimes no rows."""
    count = source.source[0] % 6
    return [f"{source.key} {source.version.hex()} {row}" for row in range(count)]


def tokens_of(source: ListedSource) -> list[bytes]:
    """Return the tokens of a source's tasks at the sink. Some tokens come from a fan-out."""
    slots = source.source[1] % 4
    children = [derive_child([root_of(source)], "split", slot) for slot in range(slots)]
    return children or [root_of(source)]


def tasks_of(source: ListedSource) -> list[Task]:
    tokens, rows = tokens_of(source), rows_of(source)
    tasks = []
    for slot, token in enumerate(tokens):
        table = make_table(rows[slot :: len(tokens)])
        tasks.append(Task(table, None, Lineage(source.source, token, source.key)))
    return tasks


def fan_out(sources: Iterable[ListedSource]) -> list[Event]:
    """Return the fan-out events."""
    roots = ((source.source, root_of(source), tokens_of(source)) for source in sources)
    return [
        Event(source, (root,), tuple(tokens)) for source, root, tokens in roots if tokens != [root]
    ]


def sources_of(listing: Listing) -> dict[bytes, ListedSource]:
    found = [listed(key, str(version)) for key, version in listing.items()]
    return {source.source: source for source in found}


def attempt(path: Path, plan: StagePlan, listing: Listing, random: Random, uid: str) -> None:
    """Run an attempt as a driver does. Workers sometimes die after writing.

    Some sources fail while the sink has their tasks, so their receipts must not count.
    """
    outputs = LocalOutputs(path / "output", f"ours-{uid}")
    sources = sources_of(listing)
    with opened(path / "ledger") as store:
        number = open_attempt(store, claim(), claimant(uid))
        outputs.sweep("ours")
        clean_up(store, outputs)
        sweep_shared(store, outputs)
        clock = Clock(step=GROUP_SECONDS / 3)
        writer = LedgerWriter(
            store, outputs, number, clock, deletes_vanished=True, quarantine_after=99
        )
        verdicts = writer.admit(list(sources.values()))
        fresh = [each for each, verdict in zip(sources.values(), verdicts, strict=True) if verdict]
        writer.apply(1, fan_out(fresh))
        call, message = StageCall(plan, outputs, clock), 1
        left = [task for source in fresh for task in tasks_of(source)]
        random.shuffle(left)
        while left:
            size = random.randint(1, len(left))
            _, receipt = call.run(left[:size])
            if random.random() < 0.2:
                random.shuffle(left)
                continue
            if random.random() < 0.2 and uid != "last":
                message += 1
                writer.apply(message, [], [failed(random.choice(fresh))])
            message += 1
            writer.apply(message, receipt.events, receipt.failures)
            left = left[size:]
        writer.end_listing(len(sources))
        writer.drain(message, anything_died=True)
        assert tidy_shared(store, outputs, plan, lambda: None) == []


def read(path: Path) -> list[str]:
    """Return the texts of a file and its companions."""
    stem = path.name.partition(".")[0]
    beside = path.parent.glob(f"{stem}.*")
    files = {each.name.removeprefix(stem): each.read_bytes() for each in beside}
    return read_texts(files)


def read_source(store: Store, outputs: LocalOutputs, source: bytes) -> list[str]:
    """Return the rows of a finished source from the location in the ledger."""
    rows = []
    for output in store.find_records([source])[source].outputs:
        found = read(outputs.root / name_output(source, output))
        begin = 0 if output.part is None else output.part.begin
        rows += found[begin : begin + output.rows]
    return rows


def check(path: Path, versions: Mapping[bytes, set[ListedSource]]) -> None:
    """Check the invariant that the rows of each finished source exist in exactly one version."""
    outputs = LocalOutputs(path / "output")
    with opened(path / "ledger") as store:
        for source, entry, _ in store.list_records():
            (known,) = (each for each in versions[source] if each.version == entry.version)
            assert sorted(read_source(store, outputs, source)) == sorted(rows_of(known))
        if not any(store.count()[state] for state in ("failed", "inflight")):
            assert verify(store, outputs).problems == [] or has_leftovers(store, outputs)


def has_leftovers(store: Store, outputs: LocalOutputs) -> bool:
    """Return whether the next attempt can repair all problems."""
    problems = verify(store, outputs).problems
    return all(
        each.startswith("left over: ") or "belong to no source: " in each for each in problems
    )


def check_end(path: Path, listing: Listing, suffix: str) -> None:
    outputs = LocalOutputs(path / "output")
    expected = [row for source in sources_of(listing).values() for row in rows_of(source)]
    files = list(outputs.root.rglob(f"*{suffix}"))
    assert Counter(row for file in files for row in read(file)) == Counter(expected)
    with opened(path / "ledger") as store:
        assert verify(store, outputs).problems == []
        assert store.count()["finished"] == len(listing)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None)
@given(
    listings=LISTINGS,
    target=st.sampled_from([1, 200, 1 << 20]),
    crashes=st.lists(st.none() | st.integers(1, 60), max_size=4),
    seed=st.integers(0, 1 << 32),
    large=st.sampled_from([2, layout.LARGE]),
)
def test_law_each_row_of_a_finished_source_is_in_one_file_once(
    kind: str,
    listings: list[Listing],
    target: int,
    crashes: list[int | None],
    seed: int,
    large: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path, random = tmp_path_factory.mktemp("shared"), Random(seed)
    sink = make_sink(kind, target)
    plan = StagePlan("sink", "sink", sink)
    versions: dict[bytes, set[ListedSource]] = {}
    for listing in listings:
        for source, known in sources_of(listing).items():
            versions.setdefault(source, set()).add(known)
    with pytest.MonkeyPatch.context() as monkeypatch:
        # Number of records from which a ledger uses the second format.
        monkeypatch.setattr(layout, "LARGE", large)
        for number, crash in enumerate([None, *crashes]):
            crash_at(monkeypatch, crash)
            listing = listings[number % len(listings)]
            try:
                attempt(path, plan, listing, random, f"uid-{number}")
            except Crash:
                assert crash is not None
            crash_at(monkeypatch, None)
            check(path, versions)
        attempt(path, plan, listings[-1], random, "last")
    check_end(path, listings[-1], sink.suffix)
