"""How an error that a stage raised becomes one line, and which line of code it is placed at.

It must not know what runs stages, nor what becomes of their errors.
"""

from __future__ import annotations

import os
import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import PurePath


def explain_error(error: BaseException) -> str:
    """Explain an exception in one line: its type, its text, and where the user's code raised it."""
    where = _locate(traceback.extract_tb(error.__traceback__))
    text = " ".join(_format(error).split())
    return f"{type(error).__name__}: {text}{where}" if text else f"{type(error).__name__}{where}"


def _format(error: BaseException) -> str:
    """Format its text; empty where its own code can't even tell that."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the class may be the user's
        return ""


# Folders of what comes with Python, or is installed beside it, and of the program itself.
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib")})
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_PROGRAM = str(PurePath(__file__).parents[1]) + os.sep
_STAGES = f"{_PROGRAM}stages{os.sep}"


def _locate(frames: Sequence[traceback.FrameSummary]) -> str:
    """Return file and line, in parentheses: the last of the stage's own, else where it was called.

    A line of a library says nothing to the author of a stage that called it with a wrong argument.
    """
    own = [frame for frame in frames if _is_own(frame.filename)]
    # A stage that is installed as a package looks like a library: then its first line counts.
    called = [frame for frame in frames if not _is_runtime(frame.filename)]
    frame = own[-1] if own else called[0] if called else frames[-1] if frames else None
    return f" ({PurePath(frame.filename).name}:{frame.lineno})" if frame else ""


def _is_own(name: str) -> bool:
    if name.startswith(_PROGRAM):
        return name.startswith(_STAGES)
    is_installed = bool(_INSTALLED.intersection(PurePath(name).parts))
    return not is_installed and not name.startswith((*_LIBRARIES, "<"))


def _is_runtime(name: str) -> bool:
    return name.startswith(_PROGRAM) and not name.startswith(_STAGES)
