"""Where the outputs of a ledger live: kept with it, and compared before anything is skipped.

A source counts as finished since its outputs are somewhere; elsewhere it is not. What a place is,
and whether two spellings are one, has been found out before: here are absolute names alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from strandline.ledger.records.entries import Change, SourceRecord
from strandline.ledger.store.fingerprints import read_fingerprint, render_fingerprint
from strandline.ledger.store.store import Store
from strandline.plan.fingerprint import Fingerprint, describe_difference
from strandline.storage import faults
from strandline.storage.outputs.manifest import ListedOutput
from strandline.storage.outputs.names import OWNER, name_output, name_shared
from strandline.storage.outputs.ports import OutputStore


def name_own_files(record: SourceRecord) -> set[str]:
    """Return the names of a finished source's own files in its folders."""
    own = (output for output in record.outputs if output.part is None)
    return {name_output(b"", output).rpartition("/")[2] for output in own}


def clean_up(store: Store, outputs: OutputStore, work: Callable[[], None] = lambda: None) -> int:
    """Remove what attempts before have not come to; of how many sources.

    Args:
        work: is told of each.

    Raises:
        LeaseLostError: another attempt has the ledger.
        VolumeError: something can't be removed; it stays noted.
    """
    untidy = list(store.list_untidy())
    records = store.find_records(untidy)
    # A source that is not finished any more gets finished again only by a try of its own, which
    # sees to its folder.
    for source, record in records.items():
        store.require_lease()
        outputs.remove_others(source, name_own_files(record))
        work()
    if untidy:
        store.write(Change(tidy=untidy))
    return len(untidy)


def sweep_shared(
    store: Store, outputs: OutputStore, work: Callable[[], None] = lambda: None
) -> int:
    """Remove the shared files that no record names, while no sink writes; say how many.

    Args:
        work: is told of each.

    Raises:
        LeaseLostError: another attempt has the ledger.
        VolumeError: a file can't be removed.
    """
    lying = outputs.list_shared()
    if not lying:
        return 0
    named = {
        name_shared(file, suffix)
        for file, facts in store.list_shared()
        for suffix, *_ in facts.list_files()
    }
    extra = [name for name in lying if name not in named]
    for name in extra:
        store.require_lease()  # or a successor may have written it
        outputs.remove_shared(name)
        faults.reach("commit.cleaned")
        work()
    return len(extra)


def list_out(store: Store) -> Iterator[ListedOutput]:
    """Yield every file that a record names."""
    for source, _, record in store.list_records():
        for output in record.outputs:
            if output.part is None and output.is_data:
                yield ListedOutput(name_output(source, output), output.size, output.rows)
    for file, facts in store.list_shared():
        rows = facts.live
        for suffix, size, _ in facts.list_files():
            yield ListedOutput(name_shared(file, suffix), size, rows)
            rows = 0  # files that lie beside the first have no rows of their own


META = "outputs"


class OutputRoot(NamedTuple):
    """Where a pipeline would have its outputs now.

    Attributes:
        url: an absolute folder or a URL; None: the pipeline's own folder, which goes with the
            ledger wherever the volume is.
        own: the pipeline's own folder, to be named.
        part: the part of the fingerprint that spells the place, if a stage's parameter does.
        is_marked: an owner's mark says that outputs are there; None: not looked at yet.
    """

    url: str | None
    own: str
    part: str
    is_marked: bool | None = None

    @property
    def name(self) -> str:
        """The place in words."""
        return self.own if self.url is None else self.url


def read_output_root(store: Store) -> str | None:
    """Return folder or URL of the outputs; None: they lie beside the ledger."""
    known = store.read_meta(META)
    return None if known is None or known["place"] is None else str(known["place"])


def find_move(store: Store, location: OutputRoot) -> str | None:
    """Describe the difference to the location in the ledger, in a line; None: there is none.

    A ledger of before there were places knows of none.
    """
    known = store.read_meta(META)
    if known is None:
        return None
    if known["place"] != location.url:
        return f"outputs: {name_old(store, location)} -> {location.name}"
    # A disk that is not mounted, or another one, has the path and nothing of what was written.
    if location.is_marked is False and store.count()["finished"]:
        return f"outputs: {location.name} -> gone from there, and {OWNER} with them"
    return None


def find_other_changes(store: Store, fingerprint: Fingerprint, location: OutputRoot) -> list[str]:
    """Return what differs from the pipeline that wrote the ledger, besides where outputs live."""
    known = read_fingerprint(store)
    if known is None or known.digest == fingerprint.digest:
        return []
    old, new = (_leave_out(parts, location.part) for parts in (known.parts, fingerprint.parts))
    return describe_difference(old, new, fingerprint.growing)


def knows_location(store: Store) -> bool:
    """Return False where a release wrote the ledger that did not keep it."""
    return store.read_meta(META) is not None


def name_old(store: Store, location: OutputRoot) -> str | None:
    """Return the place of before in words; None where it was not kept."""
    known = store.read_meta(META)
    if known is not None:
        return str(known["place"] or location.own)
    before = read_fingerprint(store)
    written: str | None = None if before is None else before.parts.get(location.part)
    return written


def record_location(store: Store, fingerprint: Fingerprint, location: OutputRoot) -> None:
    """Have the ledger know where its outputs are, which the fingerprint may name, too."""
    facts = {**render_fingerprint(fingerprint), META: {"place": location.url}}
    if any(store.read_meta(name) != fact for name, fact in facts.items()):
        store.write(Change(meta=facts))


def _leave_out(parts: Mapping[str, Any], part: str) -> dict[str, Any]:
    return {path: value for path, value in parts.items() if path != part}
