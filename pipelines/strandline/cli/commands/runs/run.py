"""`strandline run`: makes consecutive attempts, each in a process of its own.

This process stays small, so it does not load stages, Ray, or Arrow.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from strandline.cli.app.driver.driver_request import DriverRequest
from strandline.cli.app.driver.launch import can_share_driver, launching, listening
from strandline.cli.app.options import (
    show_examples,
    take_engine,
    take_json,
    take_manifests,
    take_volume,
)
from strandline.cli.app.targets import Target, list_targets, order_targets
from strandline.cli.views.announcer import Announcer, create_announcer
from strandline.run.supervise.driver.driver_process import DriverProcess, wait_until
from strandline.run.supervise.driver.retained_driver import RetainedDriver, retaining_driver
from strandline.run.supervise.notices import NoticeBoard, NoticeFile, is_own_address
from strandline.run.supervise.stop import Stop
from strandline.run.supervise.supervision import EndedAttempt, Environment, supervise
from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.latest import name_latest
from strandline_api.law.retry import RetryAt
from strandline_api.objects.pipeline import CurationPipeline
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.outcome.reader_token import NOTICE_VARIABLE, READER_VARIABLE, VARIABLE
from strandline_api.status.enums import Trigger

if TYPE_CHECKING:
    from strandline.run.supervise.status_server import AttemptServer


@click.command(
    "run",
    epilog=show_examples(
        "strandline run pipeline.yaml",
        "strandline run pipeline.yaml --volume /data --set stages.0.resources.cpu=0.5",
    ),
)
@take_manifests
@take_volume
@take_engine
@click.option(
    "--no-supervise", "is_single", is_flag=True, help="Make one attempt and report its end."
)
@click.option(
    "--serve",
    "port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Serve /progress, /metrics and, for a while after the end, /outcome; one attempt only.",
)
@click.option(
    "--missing",
    "repairs",
    is_flag=True,
    help="First reset finished sources with missing or damaged outputs, as `repair` does.",
)
@take_json
def run(
    files: tuple[Path, ...],
    settings: tuple[str, ...],
    volume: Path,
    engine: str | None,
    address: str | None,
    workers: int | None,
    after: str | None,
    is_single: bool,
    port: int | None,
    repairs: bool,
    as_json: bool,
) -> int:
    """Run the pipelines in FILES, or continue where they stopped.

    Finished sources are never processed again. After a failed attempt, the pipeline's `retry`
    policy decides about the next one. Ctrl-C lets work in flight finish and keeps it; run the same
    command again to continue.

    Several pipelines run one after another: each starts when the pipelines that its `after` names,
    or that it reads, are complete. FILE#NAME selects one pipeline from a file with several.
    """
    announcer = create_announcer(is_json=as_json)
    if port is not None and not is_single:
        raise click.UsageError("--serve needs --no-supervise")
    with announcer.failing():
        targets = order_targets(list_targets(files, settings), volume)
    if port is not None and len(targets) > 1:
        raise click.UsageError("--serve supports only one pipeline")

    stop, trigger = Stop(), Trigger.REPAIR if repairs else Trigger.RUN

    def run_target(file: Path, others: RetainedDriver | None = None) -> int:
        request = DriverRequest(file, settings, volume, engine, address, workers, after, as_json)
        made = partial(_run_pipeline, request, announcer, port, stop, trigger)
        return made(is_single=is_single, others=others)

    if len(targets) == 1:
        return run_target(targets[0].file)
    # Handle requests to stop that come between two pipelines, too.
    with listening(stop, shares_terminal=False):
        # Do not share a driver if any pipeline has user code: the code may change the process, and
        # later pipelines must not inherit the changes.
        if address or not all(can_share_driver(each.pipeline.spec, engine) for each in targets):
            return run_in_order(targets, run_target, announcer, stop.is_asked)
        with retaining_driver() as others:
            shared = partial(run_target, others=others)
            return run_in_order(targets, shared, announcer, stop.is_asked)


def run_in_order(
    targets: Sequence[Target],
    run_target: Callable[[Path], int],
    announcer: Announcer,
    is_asked: Callable[[], bool],
) -> int:
    """Run pipelines in order. If a pipeline fails, skip the pipelines that need it.

    Args:
        targets: pipelines in an order in which they can run.
        run_target: runs one pipeline to its end, and returns the exit code.
        announcer: receives the pipelines that run or are skipped.
        is_asked: returns whether a stop was requested. If so, no further pipeline starts.

    Returns:
        The first nonzero exit code, or 75 if a request to stop prevented a pipeline from running.
    """
    first, failed = int(ExitCode.COMPLETE), set[str]()
    for target in targets:
        if is_asked():
            return first or int(ExitCode.INTERRUPTED)
        needed = [name for name in target.pipeline.spec.predecessors if name in failed]
        if needed:
            announcer.leave_out(target.name, needed[0])
            failed.add(target.name)
            continue
        announcer.begin(target.name)
        code = run_target(target.file)
        # A request to stop applies to the whole command, so no further pipeline begins.
        if code == ExitCode.INTERRUPTED:
            return code
        if code:
            first = first or code
            failed.add(target.name)
    return first


def _run_pipeline(
    request: DriverRequest,
    announcer: Announcer,
    port: int | None,
    stop: Stop,
    trigger: Trigger,
    *,
    is_single: bool,
    others: RetainedDriver | None,
) -> int:
    with announcer.failing(), _serving(port) as server:
        with launching(request, others, stop) as (pipeline, folder, driver):
            if not is_single:
                return _supervise(driver, pipeline, announcer, trigger)
            if server is not None:
                server.watch(
                    folder.progress,
                    lambda: driver.pid,
                    lambda: name_latest(folder),
                    driver.measure_silence,
                    lambda: driver.log_file,
                    _take_notices(folder, driver),
                )
            ended = driver.attempt(trigger)
            announcer.end(ended)
        if server is not None:  # serve the outcome until it is read; the lock is already free
            server.end(ended.outcome, time.sleep)
        return ended.outcome.exit_code


@contextmanager
def _serving(port: int | None) -> Iterator[AttemptServer | None]:
    """Serve progress until the block ends. Yield None if no port is configured."""
    if port is None:
        yield None
        return
    from strandline.run.supervise.status_server import AttemptServer  # noqa: PLC0415 - most attempts do not serve

    try:
        names = (VARIABLE, READER_VARIABLE, NOTICE_VARIABLE)
        server = AttemptServer(port, *(os.environ.get(name, "") for name in names))
    except OSError as error:
        msg = f"--serve {port}: {error.strerror}"
        raise click.UsageError(msg) from error
    try:
        yield server
    finally:
        server.close()


def _take_notices(folder: PipelineFolder, driver: DriverProcess) -> NoticeBoard:
    """Return a board that forwards notices to the driver. If this node leaves, the driver stops."""
    file = NoticeFile(folder.notices)
    file.clear()
    return NoticeBoard(file, driver.stop.ask, time.monotonic, is_own_address)


def _supervise(
    driver: DriverProcess, pipeline: CurationPipeline, announcer: Announcer, first: Trigger
) -> int:
    # Use the monotonic clock, so that an adjusted system clock can't end an attempt early.
    begun, deadline = time.monotonic(), pipeline.spec.deadlines.run_seconds

    def attempt(trigger: Trigger) -> EndedAttempt:
        left = None if deadline is None else max(0.0, deadline - (time.monotonic() - begun))
        ended = driver.attempt(trigger, left)
        announcer.attempt_ended(ended)
        return ended

    def wait(retry: RetryAt) -> bool:
        with announcer.waiting(retry) as show:
            return wait_until(retry.time, driver.stop, show, time.sleep)

    ends_at = None if deadline is None else time.time() + deadline
    around = Environment(attempt, wait, time.time, random.random, ends_at)
    return supervise(pipeline.spec.retry, around, announcer, first)
