"""Tries the faults of several modules in one pytest: collects once, and forks for each fault.

The module's functions get the code of its faulty source. Only tests that execute the changed
function run, fastest first. Only killed faults are final here: `mutant_runs` imports the faulty
module, which also covers code outside of functions, and runs all tests.
"""

from __future__ import annotations

import ast
import gc
import json
import os
import resource
import time
import traceback
from collections.abc import Iterator, Sequence
from math import ceil
from pathlib import Path
from types import CodeType, FunctionType
from typing import IO, NamedTuple

import coverage
import pytest

from mutant_runs import Fate, tell_fate
from mutations import Mutant, plant

SHARE = 3.0  # times the duration of the tests without a fault
LEAST = 10.0  # minimum CPU seconds per fault
_EXPECTED = ["no-data-collected", "module-not-measured", "already-imported"]  # usual for tests


class Trial(NamedTuple):
    """A fault, and the file of its module."""

    path: Path
    mutant: Mutant


class _Test(NamedTuple):
    """A test, its duration, and the lines it executed in each module."""

    item: pytest.Item
    seconds: float
    lines: dict[str, set[int]]


def try_all(trials: Sequence[Trial], tests: Sequence[str], log: Path) -> Iterator[Fate]:
    """Yield the result of the tests for each fault.

    Raises:
        RuntimeError: if the tests fail without a fault, or not every fault was tried.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reading)
        with os.fdopen(writing, "w") as verdicts:
            _run_here(trials, tests, log, verdicts)
    os.close(writing)
    try:
        with os.fdopen(reading) as verdicts:
            fates = (Fate(line.strip()) for line in verdicts)
            for _ in trials:
                fate = next(fates, None)
                if fate is None:
                    raise RuntimeError(log.read_text()[-2000:])
                yield fate
    finally:
        os.waitpid(pid, 0)


def _run_here(trials: Sequence[Trial], tests: Sequence[str], log: Path, to: IO[str]) -> None:
    try:
        output = os.open(log, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o644)
        os.dup2(output, 1)
        os.dup2(output, 2)
        words = ["-x", "-q", "-p", "no:cacheprovider", "--no-header", *tests]
        pytest.main(words, plugins=[_Trials(trials, to)])
    except BaseException:  # noqa: BLE001 - told in the log, and ends here
        traceback.print_exc()
    finally:
        to.flush()
        os._exit(0)


class _Trials:
    """Runs all collected tests once, then the relevant tests for each fault."""

    def __init__(self, trials: Sequence[Trial], to: IO[str]) -> None:
        self._trials, self._to = trials, to

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Replace pytest's own loop."""
        tests = self._trace(session)
        functions = _find_functions({str(each.path) for each in self._trials})
        for path, mutant in self._trials:
            changed = _find_changed(functions[str(path)], plant(path.read_text(), mutant), path)
            lines = {line for function, _ in changed for line in _list_lines(function.__code__)}
            chosen = _choose(tests, str(path), lines, mutant.line)
            self._to.write(f"{_try(session, changed, chosen)}\n")
            self._to.flush()
        return True

    def _trace(self, session: pytest.Session) -> list[_Test]:
        """Run every test without a fault, and return the lines that each executed."""
        modules = [str(path) for path in {each.path for each in self._trials}]
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            with os.fdopen(writing, "w") as to:
                for item in session.items:
                    tracer = coverage.Coverage(data_file=None, include=modules, config_file=False)
                    tracer.set_option("run:disable_warnings", _EXPECTED)
                    begun = time.process_time()
                    with tracer.collect():
                        _run([item])
                    seconds, data = time.process_time() - begun, tracer.get_data()
                    lines = {path: data.lines(path) for path in data.measured_files()}
                    to.write(f"{json.dumps([seconds, lines])}\n")
            os._exit(bool(session.testsfailed))
        os.close(writing)
        with os.fdopen(reading) as rows:
            found = [json.loads(row) for row in rows]
        if os.waitpid(pid, 0)[1]:
            raise RuntimeError("without a fault, the tests don't pass")
        return [
            _Test(item, seconds, {path: set(numbers) for path, numbers in lines.items()})
            for item, (seconds, lines) in zip(session.items, found, strict=True)
        ]


def _run(items: Sequence[pytest.Item]) -> None:
    """Run tests until the first failure."""
    for item, after in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        if item.session.testsfailed:
            return


def _find_functions(paths: set[str]) -> dict[str, list[FunctionType]]:
    found: dict[str, list[FunctionType]] = {path: [] for path in paths}
    gc.unfreeze()  # make objects visible that the fork server has frozen
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename in found:
            found[each.__code__.co_filename].append(each)
    return found


def _find_changed(
    functions: Sequence[FunctionType], source: ast.Module, path: Path
) -> list[tuple[FunctionType, CodeType]]:
    """Return the functions that differ in the faulty source, and their new code."""
    good, faulty = _compile(ast.parse(path.read_text()), path), _compile(source, path)
    names = {name for name in good.keys() & faulty.keys() if good[name] != faulty[name]}
    named = ((each, _name(each.__code__)) for each in functions)
    return [(each, faulty[name]) for each, name in named if name in names]


def _compile(source: ast.Module, path: Path) -> dict[tuple[str, int, tuple[str, ...]], CodeType]:
    code = compile(source, str(path), "exec", dont_inherit=True)
    return {_name(each): each for each in _list_codes(code)}


def _name(code: CodeType) -> tuple[str, int, tuple[str, ...]]:
    return code.co_qualname, code.co_firstlineno, code.co_freevars


def _list_codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _list_codes(each)


def _list_lines(code: CodeType) -> Iterator[int]:
    for each in _list_codes(code):
        yield from (line for *_, line in each.co_lines() if line is not None)


def _choose(tests: Sequence[_Test], path: str, lines: set[int], line: int) -> list[_Test]:
    """Return the tests that execute a function, starting with those that reach the fault."""
    ran = [(test, test.lines.get(path, set())) for test in tests]
    chosen = [
        (line not in found, test.seconds, at)
        for at, (test, found) in enumerate(ran)
        if found & lines
    ]
    return [tests[at] for *_, at in sorted(chosen)]


def _try(
    session: pytest.Session,
    changed: Sequence[tuple[FunctionType, CodeType]],
    tests: Sequence[_Test],
) -> Fate:
    """Run tests with the functions' code replaced."""
    if not changed or not tests:
        return Fate.ALIVE
    most = LEAST + SHARE * sum(test.seconds for test in tests)
    pid = os.fork()
    if not pid:
        resource.setrlimit(resource.RLIMIT_CPU, (ceil(most), ceil(most) + 1))
        for function, code in changed:
            function.__code__ = code
        _run([test.item for test in tests])
        os._exit(bool(session.testsfailed))
    return tell_fate(os.waitpid(pid, 0)[1])
