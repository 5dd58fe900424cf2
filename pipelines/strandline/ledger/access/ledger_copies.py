"""Restores a ledger from a copy, after a loss or to undo later runs.

The copy is read completely before the ledger is replaced, and the replaced ledger is kept. Outputs
are not touched: `repair` finds the outputs that no longer match.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from strandline.ledger.access.commands import make_claimant, written_alone
from strandline.ledger.access.lease import ORPHAN_SECONDS
from strandline.ledger.access.session import opened_to_read
from strandline.ledger.checks.counts import count_sources
from strandline.ledger.errors import LedgerError, LedgerInUseError
from strandline.ledger.store.rows import list_rows
from strandline.storage.errors import naming_volume
from strandline.storage.layout import PipelineFolder, make_durable, replace_folder
from strandline.storage.outputs.disk.whole_files import write_whole
from strandline.storage.volume.locks import hold_alone, hold_exclusive

_DATA = "data.mdb"


class RestoredLedger(NamedTuple):
    """The content of a restored copy, and the folder of the previous ledger.

    Attributes:
        attempt: the last attempt recorded in the copy.
        counts: number of sources by state.
        replaced: folder of the previous ledger, or None if there was no ledger.
    """

    attempt: int
    counts: dict[str, int]
    replaced: Path | None


def restore_ledger(folder: PipelineFolder, owner: str, content: Iterable[bytes]) -> RestoredLedger:
    """Replace a pipeline's ledger with a copy.

    Args:
        folder: folder of the pipeline; it need not exist.
        owner: namespace and name of the pipeline, as in `default/notes`.
        content: blocks of the copy.

    Raises:
        LedgerError: if the copy is damaged or belongs to another pipeline, or if a driver is alive.
        HeldError: if `strandline run` is running for the pipeline.
        VolumeError: if the volume cannot be written.
    """
    make_durable(folder.path)
    # Two concurrent restores would share the temporary folder of the copy.
    with hold_alone(folder.run_lock), _received(folder, content) as copy, ExitStack() as stack:
        attempt, counts = _read_through(copy, owner)
        _stop_others(folder, stack)
        is_replaced = replace_folder(folder.ledger, copy, folder.replaced)
    return RestoredLedger(attempt, counts, folder.replaced if is_replaced else None)


@contextmanager
def _received(folder: PipelineFolder, content: Iterable[bytes]) -> Iterator[Path]:
    """Write the copy to a temporary ledger folder. Remove the folder unless the block moves it."""
    path = folder.restoring
    shutil.rmtree(path, ignore_errors=True)
    try:
        with naming_volume(path):
            path.mkdir()
        write_whole(path / _DATA, content)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _read_through(copy: Path, owner: str) -> tuple[int, dict[str, int]]:
    """Read every record of a copy. Return its last attempt and the number of sources by state.

    Without this check, a run would find a damaged page only after the previous ledger is gone.
    """
    try:
        with opened_to_read(copy) as store:
            pipeline = store.read_meta("pipeline")
            for _ in list_rows(store, None):
                pass
            lease, counts = store.read_meta("lease") or {"attempt": 0}, count_sources(store)
    except LedgerError as error:
        msg = f"nothing was restored because the copy can't be read: {error}"
        raise LedgerError(msg) from error
    if pipeline != owner:
        msg = f"nothing was restored: the copy contains the ledger of {pipeline}, not of {owner}"
        raise LedgerError(msg)
    return int(lease["attempt"]), counts


def _stop_others(folder: PipelineFolder, stack: ExitStack) -> None:
    """Check that no driver is alive, and prevent drivers from starting until the stack closes."""
    if (folder.ledger / _DATA).exists():
        try:
            stack.enter_context(written_alone(folder, make_claimant()))
        except LedgerInUseError:
            raise
        except LedgerError:  # a damaged ledger names no driver; the lock is the only check left
            pass
        else:
            return
    stack.enter_context(hold_exclusive(folder.writers_lock, ORPHAN_SECONDS))
