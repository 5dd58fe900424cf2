"""`strandline retry`: makes one additional attempt, outside the retry policy's limits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from strandline.cli.app.advice import remember_file
from strandline.cli.app.driver.driver_request import DriverRequest
from strandline.cli.app.driver.launch import launching, listening
from strandline.cli.app.options import (
    show_examples,
    take_engine,
    take_json,
    take_manifest,
    take_volume,
)
from strandline.cli.app.targets import list_targets, order_targets
from strandline.cli.commands.runs.run import run_in_order
from strandline.cli.views.announcer import Announcer, create_announcer
from strandline.cli.views.format import format_amount
from strandline.ledger.access.session import opened_to_read
from strandline.ledger.checks.counts import count_dead_letters
from strandline.run.insight.records import find_last
from strandline.run.supervise.driver.driver_process import DriverProcess
from strandline.run.supervise.stop import Stop
from strandline_api.outcome.driver_outcome import SourceCounts
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.status.enums import Trigger


@click.command(
    "retry",
    epilog=show_examples(
        "strandline retry pipeline.yaml", "strandline retry pipeline.yaml --dead-letters"
    ),
)
@take_manifest
@take_volume
@take_engine
@click.option(
    "--dead-letters",
    "dead_letters",
    is_flag=True,
    help="Process only rows that are dead letters, and add the results to the outputs of their "
    "sources.",
)
@take_json
def retry(
    file: Path,
    settings: tuple[str, ...],
    volume: Path,
    engine: str | None,
    address: str | None,
    workers: int | None,
    after: str | None,
    dead_letters: bool,
    as_json: bool,
) -> int:
    """Run one attempt of FILE now, despite its `retry` policy.

    The attempt continues where the last one stopped, and no further attempt follows. Refused while
    the pipeline runs. With `--dead-letters`, the command makes one attempt for each stage with dead
    letters, the last stage first; rows that fail again remain dead letters. The exit code covers
    the whole data set, so earlier failures count as well.

    If FILE has several pipelines, all get an attempt, in the order of `run`; a pipeline that
    needs a failed one is skipped.
    """
    announcer, stop = create_announcer(is_json=as_json), Stop()

    def retry_one(path: Path) -> int:
        remember_file(click.get_current_context(), path)
        request = DriverRequest(path, settings, volume, engine, address, workers, after, as_json)
        with announcer.failing(), launching(request, stop=stop) as (pipeline, folder, driver):
            if dead_letters:
                stages = [stage.name for stage in reversed(pipeline.spec.stages)]
                return _retry_dead_letters(stages, driver, announcer)
            if find_last(folder) is None:
                announcer.announce("there is no attempt yet; this is the first")
            ended = driver.attempt(Trigger.MANUAL)
            announcer.attempt_ended(ended)
            return ended.outcome.exit_code

    with announcer.failing():
        targets = list_targets([file], settings)
        if len(targets) > 1:
            targets = order_targets(targets, volume)
    if len(targets) == 1:
        return retry_one(file)
    # Handle requests to stop that come between two pipelines, too.
    with listening(stop, shares_terminal=False):
        return run_in_order(targets, retry_one, announcer, stop.is_asked)


def _retry_dead_letters(stages: Sequence[str], driver: DriverProcess, announcer: Announcer) -> int:
    with opened_to_read(driver.folder.ledger) as store:
        rows = count_dead_letters(store).rows
    stages = [stage for stage in stages if rows[stage]]
    if not stages:
        announcer.announce("there are no dead letters of stages in the pipeline")
        return ExitCode.COMPLETE
    command, code = driver.command, int(ExitCode.COMPLETE)
    for stage in stages:
        announcer.announce(f"{format_amount(rows[stage], 'dead letter')} of {stage}")
        driver.command = [*command, "--dead-letters", stage]
        ended = driver.attempt(Trigger.MANUAL)
        announcer.attempt_ended(ended)
        code = ended.outcome.exit_code
        # Continue with the next stage's dead letters if the attempt counted its sources. Its exit
        # code covers the whole data set, so a nonzero code does not mean that this retry failed.
        if ended.outcome.sources == SourceCounts() or code == ExitCode.INTERRUPTED:
            break
    return code
