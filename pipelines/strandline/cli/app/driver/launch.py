"""Starts a driver from the options of `run` and `retry`, and forwards requests to stop.

The commands decide about attempts, and report them.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import NamedTuple

import click

from strandline.cli.app.driver.driver_request import DriverRequest
from strandline.cli.app.json_output import find_output
from strandline.cli.app.signals import SIGNALS
from strandline.plan.fingerprint import MODULE_NAME
from strandline.run.attempt.engines import (
    FORKED,
    ON_ONE_MACHINE,
    SHARED,
    choose_engine,
    works_in_driver,
)
from strandline.run.manifest.yaml_file import read_pipeline
from strandline.run.supervise.driver.driver_output import STDERR, STDOUT, find_retained
from strandline.run.supervise.driver.driver_process import DriverLimits, DriverProcess
from strandline.run.supervise.driver.retained_driver import RetainedDriver, make_command
from strandline.run.supervise.stop import Stop
from strandline.storage.layout import PipelineFolder, make_folder
from strandline.storage.volume.locks import hold_alone
from strandline_api.objects.pipeline import CurationPipeline, PipelineSpec
from strandline_api.outcome.causes import Cause


class Launch(NamedTuple):
    """A pipeline whose run lock this process holds, so that no other process makes attempts."""

    pipeline: CurationPipeline
    folder: PipelineFolder
    driver: DriverProcess


@contextmanager
def launching(
    request: DriverRequest, others: RetainedDriver | None = None, stop: Stop | None = None
) -> Iterator[Launch]:
    """Provide a driver for attempts. Until the block ends, forward requests to stop to the driver.

    Args:
        others: keeps a driver process alive for further pipelines, or None.
        stop: receives requests to stop; by default a new object.

    Raises:
        SpecError: the manifest is invalid.
        UsageError: the cause in `after` is unknown.
        HeldError: another process already makes attempts.
        VolumeError: the folder can't be used.
    """
    reading = read_pipeline(request.file, request.settings)
    pipeline, after = reading.pipeline, _read_cause(request.after, is_stored=reading.is_stored)
    metadata = pipeline.metadata
    folder = PipelineFolder.on_volume(request.volume, metadata.namespace, metadata.name)
    make_folder(folder.path)
    driver = _make_driver(replace(request, after=after), pipeline, folder, stop or Stop())
    driver.others = others
    with listening(driver.stop, driver.shares_terminal), hold_alone(folder.run_lock):
        yield Launch(pipeline, folder, driver)


def can_share_driver(spec: PipelineSpec, engine: str | None) -> bool:
    """Return whether a driver process may make attempts for this pipeline and then for others.

    Args:
        engine: engine from the command line, which overrides the pipeline's engine, or None.
    """
    return is_ours(spec) and choose_engine(engine, spec, None) in {FORKED, SHARED}


def is_ours(spec: PipelineSpec) -> bool:
    """Return whether the pipeline runs only Strandline's own code, and no user code."""
    works = (spec.source, *spec.stages, spec.sink)
    # A colon marks user code, as in `use: my_module:MyStage`, or a parameter `my_module:clean`.
    named = (text for work in works for text in (work.use, *work.with_.values()))
    return not spec.code.is_given and not any(
        isinstance(text, str) and MODULE_NAME.fullmatch(text) for text in named
    )


def _read_cause(text: str | None, *, is_stored: bool) -> str | None:
    """Return the cause on the command line, or None if there is none or a newer operator passed it.

    With None, the driver determines from evidence on the volume how the last attempt ended.
    """
    known = [cause.value for cause in Cause]
    if text is None or text in known:
        return text
    if is_stored:
        return None
    msg = f"must be one of {', '.join(known)}, not {text!r}."
    raise click.BadParameter(msg, param_hint="'--after'")


def _make_driver(
    request: DriverRequest, pipeline: CurationPipeline, folder: PipelineFolder, stop: Stop
) -> DriverProcess:
    spec, is_in_driver = pipeline.spec, works_in_driver(request.engine)
    limits = DriverLimits(
        spec.checkpoint.grace_period_seconds,
        spec.deadlines.attempt_seconds,
        # A stage that waits at a debugger's prompt must not count as stalled.
        None if is_in_driver else spec.deadlines.stall_seconds,
    )
    # A debugger in a stage needs the keyboard, and works only in the driver's own process.
    shares_terminal = is_in_driver and sys.stdin.isatty()
    command = make_command(*request.build_arguments(), *_list_debug())
    output = find_output()
    driver = DriverProcess(command, folder, limits, stop, shares_terminal, request.after)
    # A program reads the JSON, so write it to the original output, not to a log.
    driver.stdout = None if output is None else output.number
    engine = choose_engine(request.engine, spec, request.address)
    # Start Ray early only without user code: such code may set variables while it is loaded, and
    # Ray's processes must inherit them.
    if engine == SHARED and not request.address and is_ours(spec):
        driver.ray = str(request.workers or "")
    driver.forks = engine == FORKED
    # Ray starts ahead of the modules of a driver, which a spare process has loaded already.
    driver.is_forkable = engine in ON_ONE_MACHINE
    driver.kept = find_retained((STDERR,) if output else (STDOUT, STDERR))
    return driver


def _list_debug() -> list[str]:
    return ["--debug"] * bool(click.get_current_context().meta.get("debug"))


@contextmanager
def listening(stop: Stop, shares_terminal: bool) -> Iterator[None]:
    """Count requests to stop until the block ends."""

    def receive(number: int, _frame: FrameType | None) -> None:
        # A driver in the terminal's foreground group receives Ctrl-C from the terminal. SIGTERM
        # reaches only this process.
        stop.ask(number, is_received=shares_terminal and number == signal.SIGINT)

    old = {number: signal.signal(number, receive) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
