"""Payloads that behave badly when they are pickled, read again, or told of."""

from __future__ import annotations

import threading
from typing import Any


class Unpicklable:
    """Can't be pickled, and says so in a way that nobody expects."""

    def __reduce__(self) -> tuple[Any, ...]:
        raise SystemExit(3)


class Unreadable:
    """Is pickled, and raises when it is read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return explode, ("no more",)


class Endless:
    """Is pickled without an end."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Endless, (Endless(),)


def explode(word: str) -> None:
    """Never returns.

    Raises:
        ValueError: always.
    """
    raise ValueError(word)


def make_locked() -> dict[str, Any]:
    """A payload with something in it that no process can hand to another."""
    return {"lock": threading.Lock()}
