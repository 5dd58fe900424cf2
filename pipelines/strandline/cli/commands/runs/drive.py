"""`strandline drive`: makes an attempt in a driver process, started by `strandline run`."""

from __future__ import annotations

import atexit
import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click

from strandline.cli.app.advice import remember_file
from strandline.cli.app.driver.driver_request import DriverRequest
from strandline.cli.app.ledger_access import locate
from strandline.cli.app.options import take_engine, take_json, take_manifest, take_volume
from strandline.cli.app.signals import Interruption, StoppedAtOnceError
from strandline.cli.commands.runs.outcome_details import read_details
from strandline.cli.views.reporter import create_reporter
from strandline.cli.views.running.snapshot import Pace, take_snapshot
from strandline.cli.views.running.snapshot_json import render_snapshot
from strandline.engine.call.descendants import ending_orphans
from strandline.engine.core.ports import RunProgress
from strandline.ledger.access.lease import OnChange
from strandline.ledger.access.session import LedgerSession
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.engines import (
    FORKED,
    ON_ONE_MACHINE,
    SHARED,
    choose_engine,
    keeping_started,
    start_next,
    works_in_driver,
)
from strandline.run.attempt.outcome import describe_leaving
from strandline.run.manifest.manifest import Manifest, read_manifest
from strandline.run.revise.cuts.auto_cuts import CutSettings
from strandline.run.supervise.driver.driver_message import leaving_message
from strandline.run.supervise.driver.driver_output import prepare_reading_on
from strandline.run.supervise.driver.retained_driver import Orders, find_orders
from strandline.run.supervise.record_writing import end_unfinished
from strandline.run.supervise.variables import AHEAD, FORKS, PARENT
from strandline.storage.errors import VolumeError
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.disk.whole_files import show_whole
from strandline.storage.volume.locks import find_process, read_boot_id
from strandline_api.documents.stored import describe_unknown
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.status.enums import Trigger

# Seconds between two updates of the progress file.
INTERVAL = 2.0


class ProgressFile:
    """Writes the progress file regularly.

    Args:
        path: path of the file; its folder may not exist yet.
        now: clock in seconds from any fixed point.
        clock: clock in seconds since the epoch.
    """

    def __init__(
        self,
        path: Path,
        now: Callable[[], float] = time.monotonic,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._now = now
        self._clock = clock
        self._begun = self._due = now()
        self._pace = Pace()
        self._leaving: dict[str, int] = {}

    def report(self, progress: RunProgress) -> None:
        """Write the progress if an update is due."""
        now, leaving = self._now(), dict(progress.leaving)
        # If the set of leaving nodes has changed, write immediately: a process that waits until its
        # node is idle reads this file.
        if now < self._due and leaving == self._leaving:
            return
        self._due, self._leaving = now + INTERVAL, leaving
        snapshot = take_snapshot(progress, now - self._begun, self._pace)
        content = {"pid": os.getpid(), "time": self._clock(), **render_snapshot(snapshot)}
        if leaving:
            content["leaving"] = leaving
        show_whole(self._path, json.dumps(content).encode())


# Seconds before the end of the grace period at which the process exits in any case.
LAST_SECONDS = 2.0
PARENT_SECONDS = 0.5  # interval between two checks of the parent


@click.command("drive", hidden=True)
@take_manifest
@take_volume
@take_engine
@click.option(
    "--trigger", type=click.Choice([choice.value for choice in Trigger]), default=Trigger.RUN.value
)
@click.option("--dead-letters", "dead_letters")
@take_json
def drive(**options: Any) -> int:  # noqa: ANN401 - the options
    """Make one attempt in this process, and further ones if the parent requests them."""
    orders, ahead = find_orders(os.environ), os.environ.pop(AHEAD, None)
    forks = os.environ.pop(FORKS, None) is not None
    # Load Ray's library only for an attempt on Ray, because loading takes long.
    is_on_ray = ahead is not None or (orders is not None and not forks)
    with ending_orphans() as end_orphans:
        with keeping_started(SHARED if is_on_ray else FORKED):
            made = make_attempt(DriverRequest(**options))
            while orders and made.may_go_on:
                arguments = _ask(orders, made.engine)
                if arguments is None:
                    break
                made = make_attempt(_parse(arguments))
        if made.engine in ON_ONE_MACHINE:
            end_orphans()  # otherwise, Python would wait for some of them at exit
    _prepare_end(made.engine)
    return made.code


def _ask(orders: Orders, engine: str) -> list[str] | None:
    """Request the next attempt from the parent, set its variables, and return its arguments.

    Return None if no attempt follows.

    Args:
        engine: engine of the previous attempt, which the next attempt may share.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()  # the parent must read this attempt's output before the request
    variables: dict[str, str] = {}
    arguments = orders.ask(variables)
    if arguments is not None:
        start_next(engine)  # first, because workers must not inherit the variables
    os.environ.update(variables)
    return arguments


def _parse(arguments: list[str]) -> DriverRequest:
    """Parse arguments in the form that `drive` accepts."""
    here = click.get_current_context()
    return DriverRequest(**drive.make_context(here.info_name, arguments, parent=here.parent).params)


class MadeAttempt(NamedTuple):
    """A finished attempt.

    Attributes:
        engine: engine of the attempt.
        code: the exit code.
        may_go_on: whether this process may make another attempt, for another pipeline.
    """

    engine: str
    code: int
    may_go_on: bool


def make_attempt(options: DriverRequest) -> MadeAttempt:
    """Make the attempt that the command line requests, and report it."""
    remember_file(click.get_current_context(), options.file)
    reporter = create_reporter(is_json=options.as_json)
    parent, read_on = _find_parent(), prepare_reading_on(os.environ)
    with reporter.failing(), leaving_message(os.environ):
        manifest = read_manifest(options.file, options.settings, volume=options.volume)
        if manifest.unknown:
            reporter.announce(describe_unknown("this image", manifest.unknown))
        grace = manifest.pipeline.spec.checkpoint.grace_period_seconds
        folder = locate(manifest.plan, options.volume)
        note = partial(_note_leaving, folder, parent)
        interruption = Interruption(reporter.announce, then=partial(_leave_after, grace, note))
        written = ProgressFile(folder.progress)

        def report(progress: RunProgress) -> None:
            written.report(progress)
            if reporter.report(progress):
                interruption.arm()  # Ray replaces the handlers when it starts

        config = _make_config(options, manifest, parent)
        # Stages and Ray print too; stdout is reserved for this command's own output.
        printing = redirect_stdout(sys.stderr)
        with (
            _watching(parent, read_on, interruption.ask),
            interruption.listening(),
            reporter.watching(manifest.plan.name),
            printing,
        ):
            try:
                outcome = run_attempt(config, interruption.is_asked, report)
            except SystemExit as error:  # Ray exits on SIGTERM during its start
                # `atexit` runs handlers in reverse order, so this handler runs before the handlers
                # that Ray has registered.
                atexit.register(_leave_at_once)
                raise StoppedAtOnceError from error
    details = read_details(folder, outcome.attempt, is_packable=manifest.plan.is_packable)
    reporter.close(outcome, details)
    # After a request to stop, the driver must exit even if this attempt was already complete.
    may_go_on = outcome.code == ExitCode.COMPLETE and not interruption.is_asked()
    return MadeAttempt(config.engine, int(outcome.code), may_go_on)


def _make_config(options: DriverRequest, manifest: Manifest, parent: int | None) -> AttemptConfig:
    spec = manifest.pipeline.spec
    return AttemptConfig(
        manifest.plan,
        options.volume,
        choose_engine(options.engine, spec, options.address, manifest.plan),
        options.address,
        options.workers,
        on_change=OnChange(spec.on_change),
        quarantine=spec.quarantine,
        checkpoint=spec.checkpoint,
        publishing=spec.publish,
        deliver=_plan_delivery(manifest, options.volume),
        cuts=CutSettings(spec.keep is not None, spec.keep_at_most_bytes),
        trigger=Trigger(options.trigger or Trigger.RUN),
        dead_letters=options.dead_letters,
        after=Cause(options.after) if options.after else None,
        parent=parent,
        stall=None if works_in_driver(options.engine) else spec.deadlines.stall_seconds,
        # On a cluster, the operator enforces this deadline, so do not enforce it here.
        wait=None if manifest.is_stored else spec.deadlines.pre_running_seconds,
    )


def _plan_delivery(manifest: Manifest, volume: Path) -> Callable[[LedgerSession], str] | None:
    publishing = manifest.pipeline.spec.publish
    if publishing is None or publishing.to is None:
        return None
    # A card needs the modules of reports, which most runs do not need.
    from strandline.cli.card.delivery import plan_delivery  # noqa: PLC0415
    from strandline.run.release.push.pushing import PushClock  # noqa: PLC0415

    clock = PushClock(time.time, time.sleep)
    return plan_delivery(manifest.plan, volume, publishing, manifest.pipeline.metadata, clock)


def _prepare_end(engine: str) -> None:
    """Skip Python's final garbage collection, which takes 0.3 s with Ray loaded."""
    # If stages ran in this process, run the collection, which flushes files that they left open.
    if not works_in_driver(engine):
        gc.freeze()


def _find_parent() -> int | None:
    """Return the process id of the supervising parent, or None if there is no such parent."""
    named = os.environ.pop(PARENT, "")
    return int(named) if named.isdigit() else None


@contextmanager
def _watching(
    parent: int | None, read_on: Callable[[], None], ask: Callable[[], None]
) -> Iterator[None]:
    """Request a stop of this process if the parent has died, because no other process could.

    `read_on` then reads this process' output, which the parent has read until now. The check runs
    in a thread, because a stage may block the main thread.
    """
    over = threading.Event()

    def watch() -> None:
        # Linux gives an orphan a new parent, so compare parents. Checking whether the parent's PID
        # still exists would fail if another process had reused the PID.
        while os.getppid() == parent:
            if over.wait(PARENT_SECONDS):
                return
        read_on()
        ask()

    if parent is not None:
        threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _leave_after(grace: float, note: Callable[[], None]) -> None:
    """End the process shortly before the grace period ends; only work in flight is lost."""

    def leave() -> None:
        # Write in a thread: a blocked disk may have delayed the work, and may block this write too.
        noting = threading.Thread(target=note, daemon=True)
        noting.start()
        # Wait only half of the reserve, so that a blocked disk cannot delay the exit beyond the
        # grace period.
        noting.join(LAST_SECONDS / 2)
        os._exit(int(ExitCode.INTERRUPTED))

    # For a short grace period, reserve a tenth instead of two seconds, so that most of the time
    # remains for work.
    timer = threading.Timer(grace - min(LAST_SECONDS, grace / 10), leave)
    timer.daemon = True
    timer.start()


def _leave_at_once() -> None:
    """Exit before Ray's exit handlers run: they crash in one of seven cases."""
    with suppress(OSError, ValueError):  # the reader may be gone
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(int(ExitCode.INTERRUPTED))


def _note_leaving(folder: PipelineFolder, parent: int | None) -> None:
    """If the parent has died, record the end of the attempt. Otherwise, it looks like a crash."""
    own = find_process(os.getpid())
    if parent is not None and os.getppid() != parent and own is not None:
        with suppress(VolumeError):
            end_unfinished(folder, read_boot_id(), own, describe_leaving(), time.time())
