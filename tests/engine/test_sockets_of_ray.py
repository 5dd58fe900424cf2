"""A temporary folder in which Ray's sockets would have names that are too long is refused."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from strandline.engine.ray.connection import connected
from strandline.storage.errors import VolumeError

KERNELS_MOST = 107  # bytes of a socket's name
# As Ray makes it: below the folder that it is given, with the day, the microsecond and the pid.
SESSION = f"session_2026-11-23_09-30-00_123456_{os.getpid()}"
OURS = "strandline-ray-12345678"


class RayWasAskedError(BaseException):  # no error of Ray's, which would be put into a sentence
    """Ray would have been started."""


@pytest.fixture(autouse=True)
def no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> NoReturn:
        raise RayWasAskedError

    monkeypatch.setattr("ray.init", refuse)


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], Path]]:
    """Makes a temporary folder in which a socket's name is so many bytes longer than may be."""
    made = []

    def make(excess: int) -> Path:
        below = f"/{OURS}/{SESSION}/sockets/plasma_store"
        # Those of pytest are longer than may be themselves.
        short = tempfile.mkdtemp(prefix="x", dir="/tmp")
        folder = Path(short.ljust(KERNELS_MOST + excess - len(below), "x"))
        Path(short).rename(folder)
        made.append(folder)
        monkeypatch.setattr("tempfile.tempdir", str(folder))
        return folder

    yield make
    for folder in made:
        folder.rmdir()  # nothing is left in it


def test_the_longest_name_that_fits_is_taken(make: Callable[[int], Path]) -> None:
    make(0)
    with pytest.raises(RayWasAskedError), connected(None, 1):
        pass


def test_a_longer_one_is_refused_before_ray_starts(make: Callable[[int], Path]) -> None:
    folder = make(1)
    with pytest.raises(VolumeError) as told, connected(None, 1):
        pass
    assert str(told.value) == (
        f"{folder}: the name of this temporary folder is too long for Ray's sockets, by 1 of its "
        f"{len(str(folder))} bytes; set TMPDIR to a shorter one, such as /tmp"
    )
