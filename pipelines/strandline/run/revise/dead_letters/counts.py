"""How many rows are dead letters, by the ledger alone.

A process that supervises others loads it, so it must not know how their files are read.
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
    """Dead letters of one source and one task, and the attempt that has finished the source."""

    source: bytes
    key: str
    attempt: int
    stage: str
    output: Output

    def locate(self, root: str) -> str:
        """Return its path or URL below the folder or URL of the outputs."""
        return f"{root.rstrip('/')}/{name_output(self.source, self.output)}"


def expect_dead_letters(store: Store) -> None:
    """Note, before a source is worked on, that finished ones may have dead letters."""
    if store.read_meta(MAY_HAVE_DEAD_LETTERS) is None:
        store.write(Change(meta={MAY_HAVE_DEAD_LETTERS: True}))


def list_dead_letter_files(store: Store) -> Iterator[DeadLetterFile]:
    """Yield what finished sources have left of rows that failed, in the order of the ledger."""
    if store.read_meta(MAY_HAVE_DEAD_LETTERS) is None:
        return
    for source, entry, record in store.list_records():
        for output in record.outputs:
            if output.dead_stage is not None:
                stage = output.dead_stage
                yield DeadLetterFile(source, record.key, entry.attempt, stage, output)
