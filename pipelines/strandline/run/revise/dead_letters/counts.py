"""Counts and lists dead letters from the ledger alone, without reading their files.

Supervising processes load this module, so it must not import code that reads Parquet.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from strandline.ledger.checks.counts import MAY_HAVE_DEAD_LETTERS
from strandline.ledger.records.entries import Change
from strandline.ledger.store.store import Store
from strandline.plan.receipt import Output
from strandline.storage.outputs.names import name_output


class DeadLetterFile(NamedTuple):
    """Dead letters of one source and one task, with the attempt that finished the source."""

    source: bytes
    key: str
    attempt: int
    stage: str
    output: Output

    def locate(self, root: str) -> str:
        """Return the file's path or URL, given the folder or URL of the outputs."""
        return f"{root.rstrip('/')}/{name_output(self.source, self.output)}"


def expect_dead_letters(store: Store) -> None:
    """Record that finished sources may have dead letters, before any source is processed."""
    if store.read_meta(MAY_HAVE_DEAD_LETTERS) is None:
        store.write(Change(meta={MAY_HAVE_DEAD_LETTERS: True}))


def list_dead_letter_files(store: Store) -> Iterator[DeadLetterFile]:
    """Yield the dead letter files of finished sources, in the order of the ledger."""
    if store.read_meta(MAY_HAVE_DEAD_LETTERS) is None:
        return
    for source, entry, record in store.list_records():
        for output in record.outputs:
            if output.dead_stage is not None:
                stage = output.dead_stage
                yield DeadLetterFile(source, record.key, entry.attempt, stage, output)
