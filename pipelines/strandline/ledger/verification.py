"""The proof that ledger and outputs agree: all there, nothing extra, nothing twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from strandline.ledger.store import Store
from strandline.plan.receipt import Output
from strandline.storage.outputs import TEMPORARY, OutputStore, name_source_folder


class Verdict(NamedTuple):
    """What a verification found.

    Attributes:
        sources, outputs, size: finished sources, their files, and the bytes of those.
        unfinished: sources in flight, failed or quarantined; what lies in their folders is not
            judged.
        problems: one sentence each, empty where all is well.
        pieces: of what stages have gathered; see `verify_pieces`.
    """

    sources: int
    outputs: int
    size: int
    unfinished: int
    problems: list[str]
    pieces: int = 0


def verify(store: Store, outputs: OutputStore, *, reads_bytes: bool = True) -> Verdict:
    """Walk ledger and outputs and compare.

    Args:
        reads_bytes: also read each file and compare its digest; without, only sizes.
    """
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
    for name in sorted(found):
        if name.startswith(f"{TEMPORARY}/"):
            if not unfinished:
                problems.append(f"left over: {name}")
        elif name.rpartition("/")[0] not in unfinished:
            problems.append(f"nobody's: {name}")
    return Verdict(totals["sources"], totals["outputs"], totals["size"], len(unfinished), problems)


def name_output(source: bytes, output: Output) -> str:
    """The name of an output below the output root."""
    return f"{name_source_folder(source)}/{output.token.hex()}{output.suffix}"


def _check(
    name: str, output: Output, size: int | None, outputs: OutputStore, *, reads_bytes: bool
) -> str | None:
    if size is None:
        return "missing, or recorded twice"
    if size != output.size:
        return f"{size} bytes instead of {output.size}"
    if reads_bytes and outputs.digest(name) != output.digest:
        return "other bytes than were written"
    return None


def _list_unfinished(store: Store) -> set[str]:
    def walk() -> Iterator[bytes]:
        for source, _ in store.list_marks():
            yield source
        for source, _ in store.list_failures():
            yield source
        for source, _ in store.list_parked():
            yield source

    return {name_source_folder(source) for source in walk()}
