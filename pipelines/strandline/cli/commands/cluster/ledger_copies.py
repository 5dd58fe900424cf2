"""`kubectl strandline ledger backup` and `restore`: copies of a ledger on this machine.

A log can't transfer files, so the Job sleeps while a second command in its pod reads or writes the
copy.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO

import click

from strandline.cli.app.options import show_examples
from strandline.cli.cluster.claim_job import (
    ClusterSession,
    CommandOrder,
    find_volumes,
    opened_job,
    refuse_torn,
)
from strandline.cli.cluster.copies import COPY_SECONDS
from strandline.cli.cluster.job import CONTAINER
from strandline.cli.cluster.kubectl import KubectlError
from strandline.cli.cluster.objects import ClusterPipeline
from strandline.cli.cluster.placement import ClaimUse
from strandline.cli.commands.cluster.session import (
    open_session,
    take_cluster,
    take_pipeline,
    take_start,
)
from strandline.cli.views.format import format_bytes
from strandline.storage.outputs.disk.whole_files import writing_whole
from strandline_api.spec.pod_paths import CONFIG, MANIFEST, VOLUME

_WHERE = (f"{CONFIG}/{MANIFEST}", "--volume", VOLUME)


@click.command(
    "backup", epilog=show_examples("kubectl strandline ledger backup corpus --to corpus.mdb")
)
@take_pipeline
@take_cluster
@click.option(
    "--to",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File on this machine to write; an existing file is replaced atomically.",
)
@take_start
def back_up(pipeline: str, to: Path, start_timeout: float) -> None:
    """Copy the ledger to one local file, also while the pipeline runs.

    Runs `strandline ledger backup` in a Job that mounts the ledger's volume.
    """
    session = open_session(start_timeout)
    found = session.find_pipeline(pipeline)
    # If the block fails, the previous copy stays.
    with writing_whole(to.absolute()) as handle, open(handle, "wb", closefd=False) as target:
        words = ["strandline", "ledger", "backup", *_WHERE, "--to", "-"]
        code = _execute(session, found, ClaimUse.READ, words, target=target)
        if code:
            msg = f"the ledger of {pipeline} could not be copied; {to} is unchanged"
            raise KubectlError(msg)
    session.show(f"{to}: {format_bytes(to.stat().st_size)}")


@click.command(
    "restore", epilog=show_examples("kubectl strandline ledger restore corpus --from corpus.mdb")
)
@take_pipeline
@take_cluster
@click.option(
    "--from",
    "source",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="File on this machine, written by `backup`.",
)
@take_start
def restore(pipeline: str, source: Path, start_timeout: float) -> int:
    """Replace the ledger with a local copy.

    Runs `strandline ledger restore` in a Job that mounts the ledger's volume. Refused while an
    attempt is in progress: `suspend` the pipeline first, and `resume` it afterwards.
    """
    session = open_session(start_timeout)
    found = session.find_pipeline(pipeline)
    words = ["strandline", "ledger", "restore", *_WHERE, "--from", "-"]
    with source.open("rb") as content:
        return _execute(
            session, found, ClaimUse.WRITE, words, target=sys.stdout.buffer, source=content
        )


def _execute(
    session: ClusterSession,
    pipeline: ClusterPipeline,
    use: ClaimUse,
    words: list[str],
    *,
    target: IO[bytes],
    source: IO[bytes] | None = None,
) -> int:
    """Run a command in a Job's pod, and return the exit code."""
    volumes = find_volumes(session, pipeline)
    order = CommandOrder(words[2], use, ["sleep", str(COPY_SECONDS)])
    with opened_job(session, pipeline, order, volumes) as (_, pod):
        streams = [] if source is None else ["--stdin"]
        call = ["exec", *streams, f"pod/{pod}", "-c", CONTAINER, "--", *words]
        code = session.kubectl.follow(call, target, source)
    # Only reads can be inconsistent, because no attempt can open the ledger during a restore.
    if use is ClaimUse.READ:
        refuse_torn(session, pipeline, volumes)
    return code
