"""Verifies that ledger and outputs agree: no file is missing, extra, or duplicated."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from strandline.ledger.records.entries import LISTED, Finish, Mark, SharedFile, drop_cuts
from strandline.ledger.store.recipes import read_changes
from strandline.ledger.store.store import Store
from strandline.plan.receipt import Output, SharedPart
from strandline.storage.outputs.hashing import Content
from strandline.storage.outputs.names import (
    INDEX,
    MANIFEST,
    SHARED,
    TEMPORARY,
    drop_aside,
    name_output,
    name_shared,
    name_source_folder,
    read_source_folder,
)
from strandline.storage.outputs.ports import OutputStore

MISSING = "missing, or recorded twice"
OTHER_BYTES = "changed since it was written"


class VerificationResult(NamedTuple):
    """Result of a verification.

    Attributes:
        sources, outputs, size: number of finished sources, number of their files, and bytes of
            these files.
        unfinished: number of sources in flight, failed, or quarantined. Their folders are not
            checked, and neither are files of finished sources that the next attempt removes.
        problems: a sentence per problem; empty if ledger and outputs agree.
        pieces: number of gathered pieces; see `verify_pieces`.
        dead: number of dead letters.
        older: number of finished sources made by an older recipe.
    """

    sources: int
    outputs: int
    size: int
    unfinished: int
    problems: list[str]
    pieces: int = 0
    dead: int = 0
    older: int = 0


def verify(
    store: Store, outputs: OutputStore, *, reads_bytes: bool = True, judges_list: bool = True
) -> VerificationResult:
    """Compare the ledger with the outputs.

    Another process may write at the same time. In that case, each problem is checked a second time.

    Args:
        reads_bytes: also read each file and compare its digest; otherwise, compare only sizes.
        judges_list: also check the manifest, which lists the current data files.
    """
    version = store.read_version()
    verdict = _compare(store, outputs, reads_bytes=reads_bytes, judges_list=judges_list)
    if not verdict.problems or store.read_version() == version:
        return verdict
    again = _compare(store, outputs, reads_bytes=False, judges_list=judges_list).problems
    # Report only problems that both passes found. Also report wrong digests: file and record both
    # existed when they were compared, and the second pass reads no bytes.
    stay = [
        problem
        for problem in verdict.problems
        if problem in set(again) or problem.startswith(OTHER_BYTES)
    ]
    return verdict._replace(problems=stay)


def count_missing(store: Store, outputs: OutputStore) -> tuple[int, str]:
    """Return how many files of finished sources are missing or wrong, and the first problem.

    A file is wrong if its size differs from the record. If another process has written during the
    count, count once more. Kept cuts are ignored: a missing cut only makes later changes more
    expensive.
    """
    version = store.read_version()
    missing = _count_missing(store, outputs)
    if missing[0] and store.read_version() != version:
        return _count_missing(store, outputs)
    return missing


def _count_missing(store: Store, outputs: OutputStore) -> tuple[int, str]:
    count, first = 0, ""
    for fault in _find_faults(store, outputs, Counter(), reads_bytes=False):
        if fault.cut is None and (fault.source is not None or fault.shared is not None):
            count, first = count + 1, first or fault.problem
    return count, first


def _compare(
    store: Store, outputs: OutputStore, *, reads_bytes: bool, judges_list: bool
) -> VerificationResult:
    totals: Counter[str] = Counter()
    faults = _find_faults(store, outputs, totals, reads_bytes=reads_bytes)
    problems = [fault.problem for fault in faults if judges_list or not fault.is_of_list]
    return VerificationResult(
        totals["sources"],
        totals["outputs"],
        totals["size"],
        totals["unfinished"],
        problems,
        dead=totals["dead"],
        older=totals["older"],
    )


class _Fault(NamedTuple):
    """A disagreement between ledger and outputs.

    Attributes:
        problem: a sentence.
        source: the source that owns the file.
        shared: the shared file that is missing or damaged.
        name: name of a file without a record.
        is_of_list: True if the problem concerns the manifest.
        cut: stage whose cut for the source is missing or damaged.
    """

    problem: str
    source: bytes | None = None
    shared: bytes | None = None
    name: str = ""
    is_of_list: bool = False
    cut: str | None = None


def _find_faults(
    store: Store, outputs: OutputStore, totals: Counter[str], *, reads_bytes: bool
) -> Iterator[_Fault]:
    found = dict(outputs.list_names())
    shared = _SharedCheck()
    changes = read_changes(store)
    for source, entry, record in store.list_records():
        totals["sources"] += 1
        totals["older"] += bool(changes and changes.find_first(entry.attempt))
        for output in record.outputs:
            totals["size"] += output.size
            totals["dead"] += output.rows if output.dead_stage is not None else 0
            if output.part is not None:
                shared.take(record.key, output, output.part)
                continue
            totals["outputs"] += 1
            name = name_output(source, output)
            fault = _check(name, output, found.pop(name, None), outputs, reads_bytes=reads_bytes)
            if fault:
                cut = None if output.cut is None else output.cut[0]
                yield _Fault(f"{fault}: {name}, of source {record.key}", source, cut=cut)
    unfinished = _list_unfinished(store)
    totals["unfinished"] = len(unfinished)
    files = dict(store.list_shared())
    yield from shared.find_faults(files, is_settled=not unfinished)
    for file, facts in files.items():
        for suffix, size, digest in facts.list_files():
            totals["outputs"] += 1
            name, written = name_shared(file, suffix), Content(size, digest)
            fault = _check(name, written, found.pop(name, None), outputs, reads_bytes=reads_bytes)
            if fault:
                yield _Fault(f"{fault}: {name}", shared=file)
    yield from _check_list(store, outputs)
    unjudged = unfinished | {name_source_folder(source) for source in store.list_untidy()}
    yield from _find_extra(found, unjudged, is_settled=not unfinished)


class Damage(NamedTuple):
    """Missing, damaged, and extra files, grouped by remedy.

    Attributes:
        again: marks of finished sources with missing or damaged outputs, which must be processed
            again.
        untidy: finished sources with extra files in their folders, which the next attempt removes.
        orphans: sources that are not in the ledger but have files.
        foreign: files that no run has written.
        is_list_hurt: True if the manifest is missing or damaged.
        lighter: new records of finished sources, without their missing or damaged cuts.
    """

    again: dict[bytes, Mark]
    untidy: set[bytes]
    orphans: set[bytes]
    foreign: list[str]
    is_list_hurt: bool = False
    lighter: Sequence[Finish] = ()


def find_damage(store: Store, outputs: OutputStore, hurt: Collection[bytes] = ()) -> Damage:
    """Group the problems that `verify` finds by remedy. Nothing may write at the same time.

    Args:
        hurt: further sources with missing data, such as lost gathered pieces.
    """
    faults = list(_find_faults(store, outputs, Counter(), reads_bytes=True))
    sources = {fault.source for fault in faults if fault.cut is None} | set(hurt)
    cuts: dict[bytes, set[str]] = {}
    for fault in faults:
        if fault.cut is not None and fault.source is not None:
            cuts.setdefault(fault.source, set()).add(fault.cut)
    shared = {fault.shared for fault in faults if fault.shared is not None}
    named = {fault.name: read_source_folder(fault.name) for fault in faults if fault.name}
    foreign = [name for name, source in named.items() if source is None]
    orphans = {source for source in named.values() if source}
    is_list_hurt = any(fault.is_of_list for fault in faults)
    damage = Damage({}, set(), orphans, foreign, is_list_hurt, lighter := [])
    for source, entry, record in store.list_records():
        parts = (output.part for output in record.outputs if output.part is not None)
        if source in sources or any(part.file in shared for part in parts):
            # Use attempt 0, which does not exist: with a real attempt, a crash of that attempt
            # would make the source a suspect.
            damage.again[source] = Mark(record.key, entry.version, 0, 0, is_stale=True)
        elif source in cuts:
            # The source stays finished: a missing cut only makes a later change more expensive.
            damage.untidy.add(source)
            lighter.append(Finish(source, entry.version, drop_cuts(record, cuts[source])))
        if source in damage.orphans:
            damage.orphans.remove(source)
            damage.untidy.add(source)
    return damage


def _check_list(store: Store, outputs: OutputStore) -> Iterator[_Fault]:
    """Yield problems of the manifest and its index, if the ledger has digests of both."""
    listed = store.read_meta(LISTED)
    if listed is None:
        return  # never written, or outdated because sources changed since
    expected = {MANIFEST: listed["digest"]}
    if "index" in listed:
        expected[INDEX] = listed["index"]
    for name, digest in expected.items():
        try:
            if outputs.digest(name).hex() == digest:
                continue
            problem = OTHER_BYTES
        except FileNotFoundError:
            problem = MISSING
        if store.read_meta(LISTED) == listed:  # ignore a manifest that a run has just replaced
            yield _Fault(f"{problem}: {name}", is_of_list=True)


def _find_extra(names: Iterable[str], unjudged: set[str], *, is_settled: bool) -> Iterator[_Fault]:
    """Yield a problem for each file without a record."""
    for name in sorted(names):
        if name.startswith((f"{TEMPORARY}/", f"{SHARED}/")):
            if is_settled:  # otherwise the next attempt removes them
                yield _Fault(f"left over: {name}")
        elif drop_aside(name).rpartition("/")[0] not in unjudged:
            yield _Fault(f"without a record: {name}", name=name)


def _check(
    name: str,
    output: Output | Content,
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
    except FileNotFoundError:  # the file was removed after the listing
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
    """Compares the parts named in records with the shared files that contain them."""

    def __init__(self) -> None:
        # First row and number of rows of each part, alternating in a flat array per file: there may
        # be millions of parts.
        self._parts: dict[bytes, array[int]] = {}
        self._faults: list[_Fault] = []

    def take(self, key: str, output: Output, part: SharedPart) -> None:
        """Add a source's part of a shared file."""
        if part.begin + output.rows > part.rows:
            name = name_shared(part.file, output.suffix)
            self._faults.append(_Fault(f"rows beyond the end: {name}, of source {key}"))
        self._parts.setdefault(part.file, array("q")).extend((part.begin, output.rows))

    def find_faults(
        self, files: Mapping[bytes, SharedFile], *, is_settled: bool
    ) -> Iterator[_Fault]:
        """Yield the problems found.

        Args:
            files: shared files as recorded in the ledger.
            is_settled: True if no source is unfinished, so every row of a shared file must have a
                record.
        """
        yield from self._faults
        yield from self._find_overlaps(files)
        for file, facts in files.items():
            name = name_shared(file, facts.suffix)
            named = sum(self._parts.get(file, ())[1::2])
            if named != facts.live:
                yield _Fault(
                    f"{facts.live} rows should have a record, but {named} have one: {name}"
                )
            elif is_settled and facts.live != facts.rows:  # otherwise, a later attempt rewrites it
                yield _Fault(f"{facts.rows - facts.live} rows belong to no source: {name}")

    def _find_overlaps(self, files: Mapping[bytes, SharedFile]) -> Iterator[_Fault]:
        for file, parts in self._parts.items():
            if file not in files:
                problem = f"unknown shared file {file.hex()}"
                yield _Fault(problem, shared=file)
            elif _overlap(parts):
                name = name_shared(file, files[file].suffix)
                yield _Fault(f"rows of two sources overlap: {name}")


def _overlap(parts: array[int]) -> bool:
    end = 0
    for begin, rows in sorted(zip(parts[::2], parts[1::2], strict=True)):
        if begin < end:
            return True
        end = begin + rows
    return False
