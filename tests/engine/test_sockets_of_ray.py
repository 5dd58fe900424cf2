"""A temporary folder with a long path is rejected, because Ray's sockets have limited names."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from strandline.engine.ray.connection import connected
from strandline.storage.errors import VolumeError

KERNELS_MOST = 107  # maximum bytes of a socket's name
# The name of Ray's session folder has the date, the microseconds, and the pid.
SESSION = f"session_2026-11-23_09-30-00_123456_{os.getpid()}"
OURS = "strandline-ray-12345678"


class RayWasAskedError(BaseException):  # no error of Ray, which would become a message
    """Raised where Ray would be started."""


@pytest.fixture(autouse=True)
def no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> NoReturn:
        raise RayWasAskedError

    monkeypatch.setattr("ray.init", refuse)


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], Path]]:
    """Return a function that makes folders whose socket names exceed the limit by some bytes."""
    made = []

    def make(excess: int) -> Path:
        below = f"/{OURS}/{SESSION}/sockets/plasma_store"
        # Paths of pytest's folders already exceed the limit.
        short = tempfile.mkdtemp(prefix="x", dir="/tmp")
        folder = Path(short.ljust(KERNELS_MOST + excess - len(below), "x"))
        Path(short).rename(folder)
        made.append(folder)
        monkeypatch.setattr("tempfile.tempdir", str(folder))
        return folder

    yield make
    for folder in made:
        folder.rmdir()  # fails unless the folder is empty


def test_the_longest_name_that_fits_is_taken(make: Callable[[int], Path]) -> None:
    make(0)
    with pytest.raises(RayWasAskedError), connected(None, 1):
        pass


def test_a_longer_name_is_refused_before_ray_starts(make: Callable[[int], Path]) -> None:
    folder = make(1)
    with pytest.raises(VolumeError) as told, connected(None, 1):
        pass
    assert str(told.value) == (
        f"{folder}: the name of this temporary folder is too long for Ray's sockets, by 1 of its "
        f"{len(str(folder))} bytes; set TMPDIR to a shorter one, such as /tmp"
    )
