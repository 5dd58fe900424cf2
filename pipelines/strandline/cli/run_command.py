"""`strandline run`: one attempt, watched."""

from __future__ import annotations

from pathlib import Path

import click

from strandline.cli.arguments import show_examples, take_json, take_manifest, take_volume
from strandline.cli.details import read_details
from strandline.cli.interruption import Interruption, StoppedAtOnceError
from strandline.cli.ledger_access import locate
from strandline.cli.reporter import create_reporter
from strandline.engine.ports import Progress
from strandline.ledger.lease import OnChange
from strandline.run.attempt import Options, run_attempt
from strandline.run.manifest import read_manifest


@click.command(
    "run",
    epilog=show_examples(
        "strandline run pipeline.yaml",
        "strandline run pipeline.yaml --volume /data --set stages.0.resources.cpu=0.5",
    ),
)
@take_manifest
@take_volume
@click.option(
    "--engine",
    type=click.Choice(["ray", "inline"]),
    default="ray",
    show_default=True,
    help="`ray` runs on all cores or a cluster, `inline` in this process for debugging.",
)
@click.option("--address", help="Address of a running Ray cluster; without it, one is started.")
@click.option(
    "--workers", type=click.IntRange(min=1), help="CPUs of the local Ray.  [default: all]"
)
@click.option(
    "--no-supervise", is_flag=True, expose_value=False, help="Make one attempt and no other."
)
@take_json
def run(
    file: Path,
    settings: tuple[str, ...],
    volume: Path,
    engine: str,
    address: str | None,
    workers: int | None,
    as_json: bool,
) -> int:
    """Run the pipeline in FILE, or go on where it stopped.

    Sources that are finished are never worked on again. Ctrl-C lets work in flight finish and
    keeps it; run the same command again to go on.
    """
    reporter = create_reporter(is_json=as_json)
    interruption = Interruption(reporter.say)
    with reporter.failing():
        manifest = read_manifest(file, settings)
        on_change = OnChange(manifest.pipeline.spec.on_change)
        options = Options(volume, engine, address, workers, on_change)

        def report(progress: Progress) -> None:
            if reporter.report(progress):
                interruption.arm()  # Ray puts its own handler in place when it starts

        with interruption.listening(), reporter.watching(manifest.plan.name):
            try:
                outcome = run_attempt(manifest.plan, options, interruption.is_asked, report)
            except SystemExit as error:  # Ray's answer to SIGTERM while it starts
                raise StoppedAtOnceError from error
    folder = locate(manifest.plan, volume)
    reporter.close(outcome, read_details(folder, outcome.attempt))
    return int(outcome.code)
