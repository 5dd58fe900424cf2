"""The proof that ledger and outputs agree: all there, nothing extra, nothing twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from strandline.ledger.store.store import Store
from strandline.plan.receipt import Output
from strandline.storage.outputs.outputs import (
    TEMPORARY,
    OutputStore,
    name_output,
    name_source_folder,
)

MISSING = "missing, or recorded twice"
OTHER_BYTES = "other bytes than were written"


class VerificationResult(NamedTuple):
    """What a verification found.

    Attributes:
        sources, outputs, size: finished sources, their files, and the bytes of those.
        unfinished: sources in flight, failed or quarantined; what lies in their folders is not
            judged, nor what the next attempt removes from those of finished ones.
        problems: one sentence each, empty where all is well.
        pieces: of what stages have gathered; see `verify_pieces`.
    """

    sources: int
    outputs: int
    size: int
    unfinished: int
    problems: list[str]
    pieces: int = 0


def verify(store: Store, outputs: OutputStore, *, reads_bytes: bool = True) -> VerificationResult:
    """Walk ledger and outputs and compare.

    Others may write meanwhile; what then seems wrong is looked at once more.

    Args:
        reads_bytes: also read each file and compare its digest; without, only sizes.
    """
    version = store.read_version()
    verdict = _compare(store, outputs, reads_bytes=reads_bytes)
    if not verdict.problems or store.read_version() == version:
        return verdict
    again = _compare(store, outputs, reads_bytes=False).problems
    # A file with other bytes was there when it was read, and so was its record just before.
    stay = [
        problem
        for problem in verdict.problems
        if problem in set(again) or problem.startswith(OTHER_BYTES)
    ]
    return verdict._replace(problems=stay)


def _compare(store: Store, outputs: OutputStore, *, reads_bytes: bool) -> VerificationResult:
    found = dict(outputs.list_names())
    problems: list[str] = []
    totals: Counter[str] = Counter()
    for source, _, record in store.list_records():
        totals["sources"] += 1
        for output in record.outputs:
            totals["outputs"] += 1
            totals["size"] += output.size
            name = name_output(source, output)
            fault = _check(name, output, found.pop(name, None), outputs, reads_bytes=reads_bytes)
            if fault:
                problems.append(f"{fault}: {name}, of source {record.key}")
    unfinished = _list_unfinished(store)
    unjudged = unfinished | {name_source_folder(source) for source in store.list_untidy()}
    for name in sorted(found):
        if name.startswith(f"{TEMPORARY}/"):
            if not unfinished:
                problems.append(f"left over: {name}")
        elif name.rpartition("/")[0] not in unjudged:
            problems.append(f"nobody's: {name}")
    return VerificationResult(
        totals["sources"], totals["outputs"], totals["size"], len(unfinished), problems
    )


def _check(
    name: str, output: Output, size: int | None, outputs: OutputStore, *, reads_bytes: bool
) -> str | None:
    if size is None:
        return MISSING
    if size != output.size:
        return f"{size} bytes instead of {output.size}"
    if not reads_bytes:
        return None
    try:
        return None if outputs.digest(name) == output.digest else OTHER_BYTES
    except FileNotFoundError:  # it went after it was listed
        return MISSING


def _list_unfinished(store: Store) -> set[str]:
    def walk() -> Iterator[bytes]:
        for source, _ in store.list_marks():
            yield source
        for source, _ in store.list_failures():
            yield source
        for source, _ in store.list_quarantined():
            yield source

    return {name_source_folder(source) for source in walk()}
