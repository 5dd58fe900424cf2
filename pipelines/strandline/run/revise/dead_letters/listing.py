"""Lists why rows failed, from the ledger and the files of dead letters next to the outputs.

This module must not depend on how rows are split, or on where the list is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pyarrow.parquet as pq

from strandline.data.files.opening import open_binary
from strandline.ledger.records.entries import FailureRecord
from strandline.ledger.store.store import Store
from strandline.run.revise.dead_letters.counts import list_dead_letter_files

# Maximum number of files to read. The other files probably have the same reasons.
FILES_READ = 2000
_COLUMNS = ["dead_error", "dead_message", "dead_position"]


def list_dead_letters(store: Store, location: str) -> Iterator[FailureRecord]:
    """Yield why rows failed. The key contains the source's key and the row's index in the input.

    Args:
        location: folder or URL of the outputs.

    Raises:
        OSError: if a file can't be read. `strandline verify` lists missing files.
    """
    for file in islice(list_dead_letter_files(store), FILES_READ):
        with open_binary(file.locate(location)) as opened:
            # Do not use Arrow's threads: they may abort a process that exits at the same time.
            rows = pq.ParquetFile(opened).read(columns=_COLUMNS, use_threads=False).to_pylist()
        for row in rows:
            position = row["dead_position"]
            key = file.key if position is None else f"{file.key} row {position}"
            yield FailureRecord(key, file.attempt, file.stage, _format_message(row), 1)


def _format_message(row: dict[str, str]) -> str:
    kind, message = row["dead_error"], row["dead_message"]
    # The message of an exception starts with its class; a message from a stage itself has no class.
    has_kind = message.startswith(kind) or kind.startswith("Failed")
    return message if has_kind else f"{kind}: {message}"
