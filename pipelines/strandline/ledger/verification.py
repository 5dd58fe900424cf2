"""The proof that ledger and outputs agree: all there, nothing extra, nothing twice."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from strandline.ledger.entries import Mark, SharedFile
from strandline.ledger.store.store import Store
from strandline.plan.receipt import Output, SharedPart
from strandline.storage.outputs.outputs import (
    SHARED,
    TEMPORARY,
    OutputStore,
    Written,
    name_output,
    name_shared,
    name_source_folder,
    read_source_folder,
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
    shared = _SharedCheck()
    for source, _, record in store.list_records():
        totals["sources"] += 1
        for output in record.outputs:
            totals["size"] += output.size
            if output.part is not None:
                shared.take(record.key, output, output.part)
                continue
            totals["outputs"] += 1
            name = name_output(source, output)
            fault = _check(name, output, found.pop(name, None), outputs, reads_bytes=reads_bytes)
            if fault:
                problems.append(f"{fault}: {name}, of source {record.key}")
    unfinished = _list_unfinished(store)
    files = dict(store.list_shared())
    problems += shared.find_problems(files, is_settled=not unfinished)
    for file, facts in files.items():
        for suffix, size, digest in facts.list_files():
            totals["outputs"] += 1
            name, written = name_shared(file, suffix), Written(size, digest)
            fault = _check(name, written, found.pop(name, None), outputs, reads_bytes=reads_bytes)
            if fault:
                problems.append(f"{fault}: {name}")
    unjudged = unfinished | {name_source_folder(source) for source in store.list_untidy()}
    problems += _find_extra(found, unjudged, is_settled=not unfinished)
    return VerificationResult(
        totals["sources"], totals["outputs"], totals["size"], len(unfinished), problems
    )


class Damage(NamedTuple):
    """What outputs lack or have too much, by what puts it right.

    Attributes:
        again: finished sources of whose outputs something is missing or hurt, to be done again.
        untidy: finished sources that have files beside their own, which the next attempt removes.
        orphans: sources that the ledger does not know, whose files nobody names.
        foreign: files that no run has written.
    """

    again: dict[bytes, Mark]
    untidy: set[bytes]
    orphans: set[bytes]
    foreign: list[str]


def find_damage(
    store: Store,
    outputs: OutputStore,
    hurt: Collection[bytes] = (),
    *,
    reads_bytes: bool = True,
) -> Damage:
    """Find what would make the outputs whole; nothing may write meanwhile.

    Args:
        hurt: sources of which something else is missing, such as what stages have gathered.
        reads_bytes: see `verify`.
    """
    found = dict(outputs.list_names())
    damage = Damage({}, set(), set(), [])
    faulty = _find_faulty(store, outputs, found, reads_bytes=reads_bytes)
    finished = set()
    for source, entry, record in store.list_records():
        finished.add(source)
        is_hurt = source in hurt
        for output in record.outputs:
            if output.part is not None:
                is_hurt |= faulty.get(output.part.file, True)
                continue
            name = name_output(source, output)
            size = found.pop(name, None)
            is_hurt |= bool(_check(name, output, size, outputs, reads_bytes=reads_bytes))
        if is_hurt:
            # Of no attempt: the crash of the one before is not held against it.
            damage.again[source] = Mark(record.key, entry.version, 0, 0, is_stale=True)
    unjudged = _list_unfinished(store) | {name_source_folder(each) for each in store.list_untidy()}
    for name in sorted(found):
        _sort(name, finished, unjudged, damage)
    return damage


def _find_faulty(
    store: Store, outputs: OutputStore, found: dict[str, int], *, reads_bytes: bool
) -> dict[bytes, bool]:
    """Return of each shared file whether something of it is missing or hurt."""
    faulty = {}
    for file, facts in store.list_shared():
        faults = []
        for suffix, size, digest in facts.list_files():
            name = name_shared(file, suffix)
            there, written = found.pop(name, None), Written(size, digest)
            faults.append(_check(name, written, there, outputs, reads_bytes=reads_bytes))
        faulty[file] = any(faults)
    return faulty


def _sort(name: str, finished: Collection[bytes], unjudged: set[str], damage: Damage) -> None:
    """Sort a file that no record names by who removes it; the next attempt sweeps by itself."""
    folder = name.rpartition("/")[0]
    if name.startswith((f"{TEMPORARY}/", f"{SHARED}/")) or folder in unjudged:
        return
    source = read_source_folder(folder)
    if source is None:
        damage.foreign.append(name)
    else:
        (damage.untidy if source in finished else damage.orphans).add(source)


def _find_extra(names: Iterable[str], unjudged: set[str], *, is_settled: bool) -> Iterator[str]:
    """Yield what is wrong with files that no record names."""
    for name in sorted(names):
        if name.startswith((f"{TEMPORARY}/", f"{SHARED}/")):
            if is_settled:
                yield f"left over: {name}"
        elif name.rpartition("/")[0] not in unjudged:
            yield f"nobody's: {name}"


def _check(
    name: str,
    output: Output | Written,
    size: int | None,
    outputs: OutputStore,
    *,
    reads_bytes: bool,
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


class _SharedCheck:
    """Compares the parts that records name with the files that they are said to be in."""

    def __init__(self) -> None:
        # Numbers alone, since there may be millions: first rows and rows in turn, by file.
        self._parts: dict[bytes, array[int]] = {}
        self._problems: list[str] = []

    def take(self, key: str, output: Output, part: SharedPart) -> None:
        """Take the part of a source into account."""
        if part.begin + output.rows > part.rows:
            name = name_shared(part.file, output.suffix)
            self._problems.append(f"rows beyond the end: {name}, of source {key}")
        self._parts.setdefault(part.file, array("q")).extend((part.begin, output.rows))

    def find_problems(self, files: Mapping[bytes, SharedFile], *, is_settled: bool) -> list[str]:
        """Return what is wrong, a sentence each.

        Args:
            files: as the ledger keeps them.
            is_settled: nothing is unfinished, so no file may hold what nobody names.
        """
        found = [*self._problems, *self._find_overlaps(files)]
        for file, facts in files.items():
            name = name_shared(file, facts.suffix)
            named = sum(self._parts.get(file, ())[1::2])
            if named != facts.live:
                found.append(f"{facts.live} rows should be named, and {named} are: {name}")
            elif is_settled and facts.live != facts.rows:
                found.append(f"{facts.rows - facts.live} rows are nobody's: {name}")
        return found

    def _find_overlaps(self, files: Mapping[bytes, SharedFile]) -> Iterator[str]:
        for file, parts in self._parts.items():
            if file not in files:
                yield f"nothing is known of the shared file {file.hex()}"
            elif _overlap(parts):
                name = name_shared(file, files[file].suffix)
                yield f"rows of two sources are the same ones: {name}"


def _overlap(parts: array[int]) -> bool:
    end = 0
    for begin, rows in sorted(zip(parts[::2], parts[1::2], strict=True)):
        if begin < end:
            return True
        end = begin + rows
    return False
