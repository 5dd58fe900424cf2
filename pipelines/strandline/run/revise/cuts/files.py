"""Measures and prunes cuts: number, bytes, and saved work.

A cut consists of the kept files of one stage for one source. This module must not depend on the
presentation of sizes, or on how a ledger is opened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from strandline.ledger.records.entries import (
    Change,
    Finish,
    FinishedEntry,
    SourceRecord,
    drop_cuts,
    measure_cuts,
)
from strandline.ledger.store.store import Store
from strandline.plan.token import digest_key
from strandline.storage.outputs.names import name_output

GROUP = 1000  # number of records per transaction


class CutSize(NamedTuple):
    """Totals of the cuts of a stage.

    Attributes:
        sources, files, size: number of sources, number of files, and bytes.
        seconds: seconds of work that a run saves if it starts from these cuts; 0 if unknown.
    """

    stage: str
    sources: int
    files: int
    size: int
    seconds: float


def measure_all_cuts(store: Store, seconds: Mapping[str, float]) -> list[CutSize]:
    """Return the totals of each stage's cuts, the largest first.

    Args:
        seconds: by stage, seconds per source for all work up to and including the stage.
    """
    sources, files, sizes = Counter[str](), Counter[str](), Counter[str]()
    for _, _, record in store.list_records():
        for stage, size in measure_cuts(record).items():
            sources[stage] += 1
            sizes[stage] += size
        files.update(output.cut[0] for output in record.outputs if output.cut)
    return [
        CutSize(stage, sources[stage], files[stage], size, sources[stage] * seconds.get(stage, 0))
        for stage, size in sizes.most_common()
    ]


Choice = Callable[[FinishedEntry, SourceRecord], Collection[str]]


def choose_old(before: float, stages: Collection[str]) -> Choice:
    """Return a function that chooses cuts of sources that were last processed before an attempt.

    Args:
        before: number of the attempt.
        stages: stages whose cuts to choose; empty for all stages.
    """

    def choose(entry: FinishedEntry, record: SourceRecord) -> Collection[str]:
        cuts = measure_cuts(record) if entry.attempt < before else {}
        return cuts.keys() & set(stages) if stages else cuts.keys()

    return choose


def choose_missing(is_there: Callable[[str, int], bool]) -> Choice:
    """Return a function that chooses cuts with a missing file, or a file of the wrong size.

    Args:
        is_there: returns whether a file exists with a size. The name is relative to the root of
            outputs.
    """

    def choose(_: FinishedEntry, record: SourceRecord) -> Collection[str]:
        source = digest_key(record.key)
        return {
            output.cut[0]
            for output in record.outputs
            if output.cut and not is_there(name_output(source, output), output.size)
        }

    return choose


class PruneCounts(NamedTuple):
    """Number of pruned cuts, and their bytes."""

    cuts: int
    size: int


def prune_cuts(store: Store, choose: Choice, work: Callable[[], None]) -> PruneCounts:
    """Remove the chosen cuts from records. The next clean-up deletes their files.

    Args:
        choose: returns the stages whose cuts to remove from a source.
        work: called after each group of records.
    """
    cuts = size = 0
    lighter = _list_lighter(store, choose)
    while group := list(islice(lighter, GROUP)):
        change = Change(rewrite=[finish for finish, _, _ in group])
        change.untidy = [finish.source for finish, _, _ in group]
        store.write(change)
        cuts += sum(number for _, number, _ in group)
        size += sum(each for _, _, each in group)
        work()
    return PruneCounts(cuts, size)


def _list_lighter(store: Store, choose: Choice) -> Iterator[tuple[Finish, int, int]]:
    for source, entry, record in store.list_records():
        stages = choose(entry, record)
        if stages:
            size = sum(number for stage, number in measure_cuts(record).items() if stage in stages)
            yield Finish(source, entry.version, drop_cuts(record, stages)), len(stages), size


def prune_space(
    store: Store, kept: Collection[CutSize], at_most: int, work: Callable[[], None]
) -> PruneCounts:
    """Prune cuts, with the least savings per byte first, until their total size is within a limit.

    Args:
        kept: the existing cuts.
        at_most: the limit in bytes.
        work: called after each group of records.
    """
    left = sum(each.size for each in kept) - at_most
    cuts = size = 0
    for each in sorted(kept, key=lambda kept: kept.seconds / max(1, kept.size)):
        pruned = prune_cuts(store, _choose_until(each.stage, left - size), work)
        cuts, size = cuts + pruned.cuts, size + pruned.size
    return PruneCounts(cuts, size)


def _choose_until(stage: str, left: int) -> Choice:
    """Return a function that chooses a stage's cuts until they add up to a number of bytes."""

    def choose(_: FinishedEntry, record: SourceRecord) -> Collection[str]:
        nonlocal left
        size = measure_cuts(record).get(stage)
        if left <= 0 or size is None:
            return ()
        left -= size
        return (stage,)

    return choose
