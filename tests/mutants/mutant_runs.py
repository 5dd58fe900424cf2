"""Run a room's tests over a module with a fault in it, each in a process of its own.

Nothing is written: the module is changed while it is imported, where the tests are run. A process
that has loaded what they need is forked, since that takes longer than most of them.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import resource
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from importlib import import_module
from importlib.util import spec_from_file_location
from math import ceil
from pathlib import Path
from types import CodeType, ModuleType
from typing import NamedTuple

import pytest

from mutations import Mutant, plant

# Of other people, but for what pytest wants to load itself.
LOADED = (
    "aiohttp",
    "click",
    "fsspec",
    "kopf",
    "kubernetes.aio.client",
    "lmdb",
    "msgpack",
    "prometheus_client",
    "psutil",
    "pyarrow",
    "pydantic",
    "rich.console",
    "yaml",
)
TOO_LONG = frozenset({-signal.SIGXCPU, -signal.SIGKILL})
NOT_RUN = frozenset(
    {
        pytest.ExitCode.INTERNAL_ERROR,
        pytest.ExitCode.USAGE_ERROR,
        pytest.ExitCode.NO_TESTS_COLLECTED,
    }
)


class Fate(StrEnum):
    """What became of a fault."""

    KILLED = "killed"
    ALIVE = "alive"
    SLOW = "too slow"


class Run(NamedTuple):
    """What became of a fault, and how many seconds of computing it took to see that."""

    fate: Fate
    seconds: float


class Loader(importlib.machinery.SourceFileLoader):
    """Loads a module with its fault."""

    def __init__(self, mutant: Mutant, path: Path) -> None:
        super().__init__(mutant.module, str(path))
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        """The module's, with its fault."""
        return compile(plant(Path(self.path).read_text(), self._mutant), self.path, "exec")


class Finder(importlib.abc.MetaPathFinder):
    """Finds that module, and no other."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """The module's, if it is asked for."""
        if fullname != self._loader.name:
            return None
        return spec_from_file_location(fullname, self._loader.path, loader=self._loader)


def load() -> None:
    """Load what all tests need."""
    for name in LOADED:
        with suppress(ImportError):
            import_module(name)


def run(mutant: Mutant | None, path: Path, tests: Sequence[str], log: Path, most: float) -> Run:
    """Run the tests; None plants nothing.

    Args:
        path: of the module.
        most: seconds of computing after which it is killed, since a fault may never end.

    Raises:
        RuntimeError: the tests can't be run at all.
    """
    pid = os.fork()
    if not pid:
        resource.setrlimit(resource.RLIMIT_CPU, (ceil(most), ceil(most) + 1))
        _run_here(mutant, path, tests, log)
    _, status, usage = os.wait4(pid, 0)
    if os.waitstatus_to_exitcode(status) in NOT_RUN:
        raise RuntimeError(log.read_text()[-2000:])
    return Run(tell_fate(status), usage.ru_utime + usage.ru_stime)


def tell_fate(status: int) -> Fate:
    """What became of a fault, by the status with which its process ended."""
    code = os.waitstatus_to_exitcode(status)
    return Fate.SLOW if code in TOO_LONG else Fate.KILLED if code else Fate.ALIVE


def _run_here(mutant: Mutant | None, path: Path, tests: Sequence[str], log: Path) -> None:
    code = 1
    try:
        output = os.open(log, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o644)
        os.dup2(output, 1)
        os.dup2(output, 2)
        if mutant is not None:
            sys.meta_path.insert(0, Finder(Loader(mutant, path)))
        words = ["-x", "-q", "-p", "no:cacheprovider", "--no-header", *tests]
        code = int(pytest.main(words))
        if mutant is not None and not code and mutant.module not in sys.modules:
            code = int(pytest.ExitCode.USAGE_ERROR)  # these tests don't know the module
            print(f"the tests don't load {mutant.module}", flush=True)
    except BaseException:  # noqa: BLE001 - told in the log, and ends here
        traceback.print_exc()
        code = int(pytest.ExitCode.INTERNAL_ERROR)
    finally:
        os._exit(code)
