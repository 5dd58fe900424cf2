"""Formats an error that a stage raised as one line that names the responsible line of code.

The module must not depend on the code that runs stages, or on the consequences of errors.
"""

from __future__ import annotations

import os
import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import PurePath


def explain_error(error: BaseException) -> str:
    """Describe an exception in one line: its type, its text, and its line in the user's code."""
    where = _locate(traceback.extract_tb(error.__traceback__))
    text = " ".join(_format(error).split())
    return f"{type(error).__name__}: {text}{where}" if text else f"{type(error).__name__}{where}"


def _format(error: BaseException) -> str:
    """Format the error's text. Return an empty string if the error's own code fails."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the class may be the user's
        return ""


# Folders of the standard library, of installed packages, and of the runtime. Built-in stages are in
# a separate package.
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib")})
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_RUNTIME = str(PurePath(__file__).parents[2]) + os.sep


def _locate(frames: Sequence[traceback.FrameSummary]) -> str:
    """Return, in parentheses, the file and line of the user's code that is closest to the error.

    A line inside a library does not help an author whose stage passed a wrong argument. If no frame
    belongs to the user's code, return the first call outside the runtime.
    """
    own = [frame for frame in frames if _is_own(frame.filename)]
    # A stage installed as a package looks like a library: use the first frame outside the runtime.
    called = [frame for frame in frames if not frame.filename.startswith(_RUNTIME)]
    frame = own[-1] if own else called[0] if called else frames[-1] if frames else None
    return f" ({PurePath(frame.filename).name}:{frame.lineno})" if frame else ""


def _is_own(name: str) -> bool:
    if name.startswith(_RUNTIME):
        return False
    is_installed = bool(_INSTALLED.intersection(PurePath(name).parts))
    return not is_installed and not name.startswith((*_LIBRARIES, "<"))
