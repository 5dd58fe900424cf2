"""Repeats exits that Python drops.

Ray's SIGTERM handler raises `SystemExit` wherever the main thread is. If the main thread is in a
fork hook, which libraries install for their locks, Python prints the exit as ignored and continues.
This module then raises the exit again.
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

_PAUSE = 0.05  # seconds after which Python must have left the hook


@contextmanager
def repeating_exits() -> Iterator[None]:
    """If Python drops an exit within the block, end the process with a second exit.

    After a dropped exit, errors of other hooks are not printed, because an interrupted hook breaks
    later hooks. Only the main thread receives signals, so the block has no effect in other threads.
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
