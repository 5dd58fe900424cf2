"""Exits that Python drops: Ray's handler of SIGTERM raises one, wherever the main thread is.

Where that is a hook of a fork, as libraries have them for their locks, Python prints the exit as
ignored and goes on. It is raised once more then.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

_PAUSE = 0.05  # seconds, in which Python leaves the hook


@contextmanager
def repeating_exits() -> Iterator[None]:
    """Within the block, end the process by a second exit when Python drops the first one.

    What hooks raise after the first is not printed: a hook that was cut short confuses others.
    Signals are for the main thread, so in another one nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual, is_ending = sys.unraisablehook, False

    def repeat(dropped: sys.UnraisableHookArgs) -> None:
        nonlocal is_ending
        if isinstance(dropped.exc_value, SystemExit):
            is_ending = True
            signal.signal(signal.SIGTERM, _exit)
            threading.Thread(target=_send_again, daemon=True).start()
        elif not is_ending:
            usual(dropped)

    sys.unraisablehook = repeat
    try:
        yield
    finally:
        sys.unraisablehook = usual


def _send_again() -> None:
    time.sleep(_PAUSE)
    os.kill(os.getpid(), signal.SIGTERM)


def _exit(*_: object) -> NoReturn:
    sys.exit(1)
