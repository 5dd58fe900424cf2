"""Location of a ledger's outputs, recorded in the ledger and checked before any source is skipped.

A source counts as finished only at the location that has its outputs. All locations are absolute;
the caller has already resolved different spellings.
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
    """Remove leftovers that earlier attempts did not remove. Return the number of cleaned sources.

    Args:
        work: called for each source.

    Raises:
        LeaseLostError: if another attempt has the ledger.
        VolumeError: if files can't be removed; the source then stays recorded for the next attempt.
    """
    untidy = list(store.list_untidy())
    records = store.find_records(untidy)
    # Ignore sources that are no longer finished: their next try cleans up the folder.
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
    """Remove shared files without a record, and return their number. No sink may write meanwhile.

    Args:
        work: called for each file.

    Raises:
        LeaseLostError: if another attempt has the ledger.
        VolumeError: if a file can't be removed.
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
        store.require_lease()  # another attempt may have written the file by now
        outputs.remove_shared(name)
        faults.reach("commit.cleaned")
        work()
    return len(extra)


def list_out(store: Store) -> Iterator[ListedOutput]:
    """Yield every recorded file for readers: data files, shared files, and their companions."""
    for source, _, record in store.list_records():
        for output in record.outputs:
            if output.part is None and output.is_data:
                yield ListedOutput(name_output(source, output), output.size, output.rows)
    for file, facts in store.list_shared():
        rows = facts.live
        for suffix, size, _ in facts.list_files():
            yield ListedOutput(name_shared(file, suffix), size, rows)
            rows = 0  # count the rows once, for the first file


META = "outputs"


class OutputRoot(NamedTuple):
    """Current location of a pipeline's outputs.

    Attributes:
        url: absolute folder or URL, or None for the pipeline's own folder, which moves with the
            ledger.
        own: path of the pipeline's own folder, for messages.
        part: path of the fingerprint part with the location, or an empty string if no stage
            parameter contains the location.
        is_marked: True if an owner mark exists at the location, or None if not checked yet.
    """

    url: str | None
    own: str
    part: str
    is_marked: bool | None = None

    @property
    def name(self) -> str:
        """Return the location for messages."""
        return self.own if self.url is None else self.url


def read_output_root(store: Store) -> str | None:
    """Return the folder or URL of the outputs, or None if they are beside the ledger."""
    known = store.read_meta(META)
    return None if known is None or known["place"] is None else str(known["place"])


def find_move(store: Store, location: OutputRoot) -> str | None:
    """Describe in a line how the location differs from the recorded location, if at all.

    Ledgers of older releases have no recorded location, so no difference is found.
    """
    known = store.read_meta(META)
    if known is None:
        return None
    if known["place"] != location.url:
        return f"outputs: {name_old(store, location)} -> {location.name}"
    # An unmounted or different disk may have the same path, but none of the outputs.
    if location.is_marked is False and store.count()["finished"]:
        return f"outputs: {location.name} -> missing there, including {OWNER}"
    return None


def find_other_changes(store: Store, fingerprint: Fingerprint, location: OutputRoot) -> list[str]:
    """Return the differences from the recorded pipeline, except the location of the outputs."""
    known = read_fingerprint(store)
    if known is None or known.digest == fingerprint.digest:
        return []
    old, new = (_leave_out(parts, location.part) for parts in (known.parts, fingerprint.parts))
    return describe_difference(old, new, fingerprint.growing)


def knows_location(store: Store) -> bool:
    """Return False if an older release wrote the ledger without a location."""
    return store.read_meta(META) is not None


def name_old(store: Store, location: OutputRoot) -> str | None:
    """Return the recorded location for messages, or None if it was not recorded."""
    known = store.read_meta(META)
    if known is not None:
        return str(known["place"] or location.own)
    before = read_fingerprint(store)
    written: str | None = None if before is None else before.parts.get(location.part)
    return written


def record_location(store: Store, fingerprint: Fingerprint, location: OutputRoot) -> None:
    """Record the location of the outputs, and the fingerprint, which may contain it."""
    facts = {**render_fingerprint(fingerprint), META: {"place": location.url}}
    if any(store.read_meta(name) != fact for name, fact in facts.items()):
        store.write(Change(meta=facts))


def _leave_out(parts: Mapping[str, Any], part: str) -> dict[str, Any]:
    return {path: value for path, value in parts.items() if path != part}
