"""Runs a package's tests against a module with a planted fault, each in a separate process.

No file changes: the fault is planted when the test process imports the module. Processes are forked
from one with the dependencies loaded, because loading takes longer than most of these tests.
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

# Third-party modules, except those that pytest loads itself.
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
    """Result of a fault."""

    KILLED = "killed"
    ALIVE = "alive"
    SLOW = "too slow"


class Run(NamedTuple):
    """Result of a fault, and the CPU seconds until it was known."""

    fate: Fate
    seconds: float


class Loader(importlib.machinery.SourceFileLoader):
    """Loads a module with its fault."""

    def __init__(self, mutant: Mutant, path: Path) -> None:
        super().__init__(mutant.module, str(path))
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        """Return the module's code with its fault."""
        return compile(plant(Path(self.path).read_text(), self._mutant), self.path, "exec")


class Finder(importlib.abc.MetaPathFinder):
    """Finds the faulty module and no other."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the module's spec if this module is requested, or None."""
        if fullname != self._loader.name:
            return None
        return spec_from_file_location(fullname, self._loader.path, loader=self._loader)


def load() -> None:
    """Load the dependencies of all tests."""
    for name in LOADED:
        with suppress(ImportError):
            import_module(name)


def run(mutant: Mutant | None, path: Path, tests: Sequence[str], log: Path, most: float) -> Run:
    """Run the tests with a fault, or with None for no fault.

    Args:
        path: of the module.
        most: CPU seconds until the process is killed, because a fault may loop forever.

    Raises:
        RuntimeError: if the tests can't run at all.
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
    """Return the result of a fault from the exit status of its process."""
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
            code = int(pytest.ExitCode.USAGE_ERROR)  # the tests do not import the module
            print(f"the tests don't load {mutant.module}", flush=True)
    except BaseException:  # noqa: BLE001 - told in the log, and ends here
        traceback.print_exc()
        code = int(pytest.ExitCode.INTERNAL_ERROR)
    finally:
        os._exit(code)
