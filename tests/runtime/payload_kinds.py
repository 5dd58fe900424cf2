"""Payloads that fail when they are pickled, unpickled, or described."""

from __future__ import annotations

import threading
from typing import Any


class Unpicklable:
    """Fails to pickle with an unexpected exception."""

    def __reduce__(self) -> tuple[Any, ...]:
        raise SystemExit(3)


class Unreadable:
    """Can be pickled, but raises when unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return explode, ("no more",)


class Endless:
    """Never finishes pickling."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Endless, (Endless(),)


def explode(word: str) -> None:
    """Raise an error.

    Raises:
        ValueError: always.
    """
    raise ValueError(word)


def make_locked() -> dict[str, Any]:
    """Return a payload that cannot be sent to another process."""
    return {"lock": threading.Lock()}
