"""What a stage does once on each node, before any of its workers there is set up.

A lock on a file lets one worker do it while the others wait, and a marker beside it says that it
is done. A worker that dies over it leaves the lock and no marker, so the next one tries again. It
knows neither Ray nor what is done.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from strandline.engine.call.setup import StageSetupError
from strandline.storage.outputs.temporary import hold_folder, sweep_folder

_PREFIX = "strandline-node-"
_HELD: dict[Path, int | None] = {}


def set_up_once(folder: Path, name: str, set_up: Callable[[], None]) -> None:
    """Call `set_up` unless it has been done for that name; waits for whoever does it now.

    Args:
        folder: of the attempt on this node; see `find_folder`.
        name: of the stage.

    Raises:
        StageSetupError: the folder can't be used; and what `set_up` raises.
    """
    try:
        _hold(folder)
        handle = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        msg = f"stage {name!r} can't be set up on a node, {folder} can't be used: {error.strerror}"
        raise StageSetupError(msg) from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        done = folder / f"{name}.done"
        if not done.exists():
            set_up()
            done.touch()
    finally:
        os.close(handle)


def _hold(folder: Path) -> None:
    """Keep a folder from being swept for as long as this process lives."""
    while _HELD.get(folder) is None:
        folder.mkdir(parents=True, exist_ok=True)
        _HELD[folder] = hold_folder(folder)  # None where another worker sweeps it at this moment


def find_folder(pipeline: str, attempt: str, node: str, temporary: Path | None = None) -> Path:
    """Where an attempt of a pipeline notes what it has set up on a node.

    Args:
        pipeline, attempt, node: unique, and good in the name of a file.
    """
    root = temporary or Path(tempfile.gettempdir())
    return root / f"{_PREFIX}{os.getuid()}-{pipeline}" / f"{node}-{attempt}"


def sweep(folder: Path) -> None:
    """Remove what earlier attempts of the pipeline have left on the node of this folder."""
    node = folder.name.partition("-")[0]
    for other in folder.parent.glob(f"{node}-*"):
        if other != folder:
            with suppress(OSError):  # another worker was quicker
                sweep_folder(other)  # unless a worker of it lives


def remove(folder: Path) -> None:
    """Remove what an attempt has noted on this node."""
    handle = _HELD.pop(folder, None)
    if handle is not None:
        os.close(handle)
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # another node of this machine has its own beside it
        folder.parent.rmdir()
