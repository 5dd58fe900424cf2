"""Opens a pipeline's ledger for reading."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import click

from strandline.ledger.access.output_location import locate_outputs
from strandline.ledger.access.session import opened_to_read
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import PipelinePlan
from strandline.storage.layout import PipelineFolder, is_mounted_readonly


def locate(plan: PipelinePlan, volume: Path) -> PipelineFolder:
    """Return the pipeline's folder on the volume."""
    return PipelineFolder.on_volume(volume, plan.namespace, plan.name)


def locate_output(plan: PipelinePlan, volume: Path) -> str:
    """Return the folder or URL of the pipeline's output."""
    return locate_outputs(plan, locate(plan, volume))


@contextmanager
def looking(folder: PipelineFolder) -> Iterator[Store]:
    """Open the ledger in the folder for reading until the block ends.

    Raises:
        LedgerError: the ledger is missing or unreadable.
    """
    with opened_to_read(folder.ledger) as store:
        if is_mounted_readonly(folder.ledger):
            # The volume may be a snapshot, which does not show later changes, so show its age. LMDB
            # writes `data.mdb` at every commit, so the modification time dates the last commit.
            written = (folder.ledger / "data.mdb").stat().st_mtime
            time = datetime.fromtimestamp(written, UTC)
            click.echo(f"as of {time:%Y-%m-%d %H:%M:%S} UTC: the volume is read-only", err=True)
        yield store
