"""When a worker is replaced because of its age or memory use."""

from __future__ import annotations

import mmap
import subprocess
import sys

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from strandline.engine.worker.limits import (
    LOOK_SECONDS,
    MemoryWatch,
    WorkerLimits,
    choose_limits,
    read_own_memory,
)

steps = st.lists(st.tuples(st.floats(0.01, 5), st.integers(0, 200)), max_size=20)


class Life:
    """A worker's clock and memory use."""

    def __init__(self, limits: WorkerLimits) -> None:
        self.seconds, self.memory, self.looks = 100.0, 0, 0
        self.watch = MemoryWatch(limits, lambda: self.seconds, self._read)

    def _read(self) -> int:
        self.looks += 1
        return self.memory

    def go_on(self, seconds: float, memory: int) -> str:
        self.seconds += seconds
        self.memory = memory
        return self.watch.look()


@given(steps=steps)
def test_law_without_a_limit_memory_is_not_measured(steps: list[tuple[float, int]]) -> None:
    life = Life(WorkerLimits())
    assert {life.go_on(*step) for step in steps} <= {""}
    assert life.looks == 0


@given(steps=steps)
def test_law_a_worker_is_replaced_at_its_age_and_not_before(
    steps: list[tuple[float, int]],
) -> None:
    life = Life(WorkerLimits(seconds=10.0))
    for step in steps:
        word = life.go_on(*step)
        assert word == ("age" if life.seconds - 100.0 >= 10.0 else "")


@given(steps=steps)
def test_law_a_worker_above_its_limit_is_replaced_at_the_next_look(
    steps: list[tuple[float, int]],
) -> None:
    life = Life(WorkerLimits(memory=100))
    for step in steps:
        looks = life.looks
        word = life.go_on(*step)
        assert word == ("memory" if life.looks > looks and life.memory > 100 else "")


@given(steps=steps)
def test_law_looks_are_half_a_second_apart(steps: list[tuple[float, int]]) -> None:
    life = Life(WorkerLimits(memory=1000))
    for step in steps:
        life.go_on(*step)
    assert life.looks <= 1 + (life.seconds - 100.0) / LOOK_SECONDS


def test_reserved_memory_is_a_limit_unless_exceeded_from_the_start() -> None:
    grown = Life(choose_limits(None, None, 1000))
    assert [grown.go_on(1, memory) for memory in (900, 900, 901)] == ["", "", "memory"]
    large = Life(choose_limits(None, None, 1000))
    assert [large.go_on(1, memory) for memory in (901, 2000, 3000)] == ["", "", ""]
    asked = Life(choose_limits(None, 900, 1000))
    assert asked.go_on(1, 901) == "memory"


def test_an_explicit_limit_precedes_reserved_memory() -> None:
    assert choose_limits(60.0, 2000, 1000) == WorkerLimits(60.0, 2000)
    assert choose_limits(None, None, 1000) == WorkerLimits(None, 900, is_reserved=True)
    assert choose_limits(None, None, None) == WorkerLimits()


def test_memory_is_the_workers_own_and_its_childrens() -> None:
    before = read_own_memory()
    block = np.ones(8_000_000)
    grown = read_own_memory()
    program = "x = bytes(bytearray(b'1') * 80_000_000); print(flush=True); input()"
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        child.stdout.readline()
        with_child = read_own_memory()
    finally:
        child.communicate(b"\n")

    assert block.nbytes * 0.9 < grown - before
    assert with_child - grown > 70_000_000


def test_shared_memory_does_not_count_for_the_worker() -> None:
    before = read_own_memory()
    shared = mmap.mmap(-1, 64_000_000)  # shared without a file, like the object store
    shared.write(b"1" * 64_000_000)

    assert read_own_memory() - before < 32_000_000
    shared.close()
