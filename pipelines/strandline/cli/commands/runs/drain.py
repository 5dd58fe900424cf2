"""`strandline drain`: stops a run as SIGTERM does, for use in a pod's `preStop` hook.

The command must start fast, so it does not load stages, Ray, or Arrow.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import click

from strandline.cli.app.options import each_pipeline, show_examples, take_manifest, take_volume
from strandline.run.manifest.yaml_file import read_pipeline
from strandline.run.supervise.drain import DrainError, choose, look, wait_for
from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.locks import Process, find_process, read_boot_id

# Seconds after the grace period for killing processes and recording the end of the attempt.
SPARE_SECONDS = 10.0


@click.command(
    "drain",
    epilog=show_examples(
        "strandline drain pipeline.yaml", "strandline drain pipeline.yaml --volume /data --wait"
    ),
)
@take_manifest
@take_volume
@click.option("--wait", "waits", is_flag=True, help="Return when all processes have ended.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Longest wait.  [default: the pipeline's gracePeriod and 10 s]",
)
@click.option(
    "--now",
    "is_now",
    is_flag=True,
    help="Stop at once, like a second Ctrl-C; more work is repeated.",
)
@each_pipeline
def drain(
    file: Path,
    settings: tuple[str, ...],
    volume: Path,
    waits: bool,
    timeout: float | None,
    is_now: bool,
) -> None:
    """Stop the run of FILE on this machine.

    As after Ctrl-C, work in flight is finished and kept, and no further attempt follows. Repeating
    the command is harmless. If nothing is running, the exit code is 0.
    """
    pipeline = read_pipeline(file, settings).pipeline
    metadata = pipeline.metadata
    folder = PipelineFolder.on_volume(volume, metadata.namespace, metadata.name)
    found = choose(look(folder), read_boot_id(), time.time(), find_process)
    # There is also nothing to drain if the process ends between the search and the signal.
    if found is None or (found.ask is not None and not _ask(found.ask, is_now=is_now)):
        click.echo(f"nothing to drain: {metadata.namespace}/{metadata.name} is not running")
        return
    grace = pipeline.spec.checkpoint.grace_period_seconds
    if found.ask is None:
        click.echo(f"process {found.awaited[0].pid} is already stopping")
        if is_now:
            _ask(found.awaited[0], is_now=True)
    elif is_now:
        click.echo(f"process {found.ask.pid} was asked to stop at once")
    else:
        click.echo(f"process {found.ask.pid} was asked to stop; it has {grace:g} s for that")
    if waits:
        _wait(found.awaited, grace + SPARE_SECONDS if timeout is None else timeout)


def _ask(process: Process, *, is_now: bool) -> bool:
    """Send the signal; return False if the process has ended in the meantime."""
    try:
        os.kill(process.pid, signal.SIGTERM)
        if is_now:  # a second signal counts as a second request
            os.kill(process.pid, signal.SIGINT)
    except ProcessLookupError:
        return False
    except PermissionError as error:
        msg = f"process {process.pid} belongs to another user; drain it as that user"
        raise DrainError(msg) from error
    return True


def _wait(processes: tuple[Process, ...], seconds: float) -> None:
    left = wait_for(processes, seconds, find_process, time.sleep)
    if left is not None:
        msg = f"process {left.pid} is still running after {seconds:g} s"
        raise DrainError(msg)
    click.echo("the run has ended")
