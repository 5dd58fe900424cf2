"""Sets up a stage in the process in which the stage works: once per node, and once per worker.

The module must not depend on later calls of the stage.
"""

from __future__ import annotations

import copy
import fcntl
import os
import shutil
import socket
import tempfile
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from strandline.engine.call.raised_errors import explain_error
from strandline.engine.call.stage.stage_call import StageCall
from strandline.plan.errors import StageStoppedError, StrandlineError, may_pass
from strandline.plan.packages import explain_import
from strandline.plan.pipeline import StagePlan
from strandline.storage.access.stores import use_access
from strandline.storage.outputs.disk.own_handles import locking
from strandline.storage.outputs.disk.temporary import hold_folder, sweep_folder
from strandline.storage.outputs.ports import OutputLocation, OutputStore
from strandline.storage.outputs.remote import open_outputs
from strandline.storage.volume.locks import hold_shared
from strandline_api.outcome.exit_codes import ExitCode

MOST_SENTENCES = 100  # maximum number of sentences to keep; older sentences are dropped


class StageSetupError(StrandlineError):
    """Raised if a stage can't be set up in its worker, or on its node."""


class PackageMissingError(StageSetupError):
    """Raised if a worker lacks a package that its stage needs. Another attempt would not help."""

    exit_code: ClassVar[ExitCode] = ExitCode.BAD_SPEC


def name_setup_error(what: str, error: Exception) -> StageSetupError:
    """Create a setup error whose message begins with the failed action."""
    if isinstance(error, ImportError):
        return PackageMissingError(f"{what}: {explain_import(error)}")
    failed = StageSetupError(f"{what}: {explain_error(error)}")
    failed.is_lasting = not may_pass(error)
    failed.cause = error.cause if isinstance(error, StageStoppedError) else None
    return failed


def has_node_setup(stage: StagePlan) -> bool:
    """Return whether the stage has a setup per node."""
    return stage.overrides("setup_on_node")


def set_up_node(stage: StagePlan, node: str) -> None:
    """Run the stage's setup for a node.

    Args:
        node: the node's name, for messages.

    Raises:
        StageSetupError: if `setup_on_node` of the stage raised an error. `PackageMissingError` if a
            package is missing.
    """
    try:
        copy.deepcopy(stage.stage).setup_on_node()
    except Exception as error:
        what = f"stage {stage.name!r} can't set up node {node!r}"
        raise name_setup_error(what, error) from error


class StageHooks(NamedTuple):
    """Callbacks of the worker process that a stage may use; see `Stage`.

    Attributes:
        report: receives the stage's sentences for people.
        is_stopping: returns whether the stage should abandon its work.
    """

    report: Callable[[str], None] | None = None
    is_stopping: Callable[[], bool] = bool


_NO_HOOKS = StageHooks()


def set_up_stage(
    stage: StagePlan, folder: Path | None = None, hooks: StageHooks = _NO_HOOKS
) -> StagePlan:
    """Return a copy of the stage that is ready for work.

    Args:
        folder: the pipeline's folder on the volume; None if not available here.

    Raises:
        StageSetupError: if `setup` of the stage raised an error. `PackageMissingError` if a package
            is missing.
    """
    own = replace(stage, stage=copy.deepcopy(stage.stage))
    own.stage.volume_folder = folder
    own.stage.report, own.stage.is_stopping = hooks
    use_access(stage.stores)
    try:
        own.stage.setup()
    except Exception as error:
        raise name_setup_error(f"stage {stage.name!r} can't be set up", error) from error
    return own


class WorkerSite(NamedTuple):
    """The names of a worker's pipeline and attempt. Both are valid in file names."""

    pipeline: str
    attempt: str


class PackedStage(NamedTuple):
    """A stage in the form that is sent to a worker: its name, and its pickled `StagePlan`."""

    name: str
    plan: bytes


def load_stage(packed: PackedStage, loads: Callable[[bytes], Any]) -> StagePlan:
    """Unpickle the plan of a stage in its worker.

    Raises:
        StageSetupError: if the stage can't be imported here.
    """
    try:
        loaded: StagePlan = loads(packed.plan)
    except Exception as error:  # noqa: BLE001 - a module may raise anything
        what = f"stage {packed.name!r} can't be set up in a worker"
        raise name_setup_error(what, error) from None
    return loaded


def set_up_call(
    plan: StagePlan,
    outputs: OutputLocation,
    site: WorkerSite,
    node: str,
    now: Callable[[], float],
    hooks: StageHooks = _NO_HOOKS,
) -> StageCall:
    """Set up a stage in its worker, after the setup of the node.

    Args:
        node: the node's id.
        now: returns seconds from any fixed point.

    Raises:
        StageSetupError: if the stage's own setup raised an error.
        VolumeError: if a newer attempt has taken over the outputs.
    """
    if has_node_setup(plan):
        folder = find_folder(*site, node)
        sweep(folder)
        set_up_once(folder, plan.name, lambda: set_up_node(plan, socket.gethostname()))
    opened = _open_to_write(outputs) if plan.writes else None
    return StageCall(set_up_stage(plan, find_volume_folder(outputs), hooks), opened, now)


def find_volume_folder(outputs: OutputLocation) -> Path | None:
    """Return the pipeline's folder on the volume, or None if the volume is not mounted here."""
    lock = outputs.writers_lock
    # The volume is always mounted on the driver's node, and on other nodes only if it can be
    # shared.
    return lock.parent if lock is not None and lock.parent.is_dir() else None


def _open_to_write(outputs: OutputLocation) -> OutputStore:
    if outputs.writers_lock is not None and find_volume_folder(outputs) is not None:
        hold_shared(outputs.writers_lock)
    return open_outputs(outputs.url, f"{outputs.writer}-{os.getpid()}")


_PREFIX = "strandline-node-"
_HELD: dict[Path, int | None] = {}


def set_up_once(folder: Path, name: str, set_up: Callable[[], None]) -> None:
    """Call `set_up` unless `name` is already set up on this node.

    Wait if another process is doing the setup at the moment.

    Args:
        folder: the attempt's folder on this node; see `find_folder`.
        name: the name of the stage.

    Raises:
        StageSetupError: if the folder can't be used. Errors of `set_up` are raised unchanged.
    """
    try:
        _hold(folder)
        handle = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        msg = f"stage {name!r} can't be set up on a node, {folder} can't be used: {error.strerror}"
        raise StageSetupError(msg) from None
    try:
        with locking(handle, fcntl.LOCK_EX):
            done = folder / f"{name}.done"
            if not done.exists():
                set_up()
                done.touch()
    finally:
        os.close(handle)


def _hold(folder: Path) -> None:
    """Protect a folder from sweeps while this process lives."""
    while _HELD.get(folder) is None:
        folder.mkdir(parents=True, exist_ok=True)
        _HELD[folder] = hold_folder(folder)  # returns None while another worker sweeps the folder


def find_folder(pipeline: str, attempt: str, node: str, temporary: Path | None = None) -> Path:
    """Return the folder in which an attempt records which setups are done on a node.

    Args:
        pipeline, attempt, node: unique names that are valid in file names.
    """
    root = temporary or Path(tempfile.gettempdir())
    return root / f"{_PREFIX}{os.getuid()}-{pipeline}" / f"{node}-{attempt}"


def sweep(folder: Path) -> None:
    """Remove the folders of the pipeline's earlier attempts on the same node."""
    node = folder.name.partition("-")[0]
    for other in folder.parent.glob(f"{node}-*"):
        if other != folder:
            with suppress(OSError):  # another worker has removed the folder
                sweep_folder(other)  # keeps a folder that a live worker holds


def remove(folder: Path) -> None:
    """Remove an attempt's records of setups on this node."""
    handle = _HELD.pop(folder, None)
    if handle is not None:
        os.close(handle)
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # another node on this machine may still have a folder there
        folder.parent.rmdir()


class FirstTimes:
    """Drops repeated sentences: workers that query the same server report the same facts.

    Args:
        note: receives each sentence once.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._recent: deque[str] = deque(maxlen=MOST_SENTENCES)

    def __call__(self, sentence: str) -> None:
        """Pass a sentence on, unless the same sentence was passed on recently."""
        if sentence not in self._recent:
            self._recent.append(sentence)
            self._note(sentence)
