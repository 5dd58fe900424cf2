"""Runs a case on Python's process pools: one pool for all stages, or a pool per stage."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from strandline_bench.engines.cases import Case
from strandline_bench.engines.work.works import Items, chain


def run_whole(case: Case, folder: Path, begin: Callable[[], None]) -> None:  # noqa: ARG001 - as all rivals
    """Run the case in one pool, where each batch stays in one process."""
    items = case.items()
    begin()
    with get_context("fork").Pool(case.cpus) as pool:
        deque(pool.imap(partial(chain, case.works), _cut(items, case.batch)), maxlen=0)


def run_apart(case: Case, folder: Path, begin: Callable[[], None]) -> None:  # noqa: ARG001 - as all rivals
    """Run the case in a pool per stage, with equal sizes because the costs are unknown."""
    items = case.items()
    begin()
    with ExitStack() as stack:
        batches: Iterable[Items] = _cut(items, case.batch)
        for work, size in zip(case.works, share_evenly(case.cpus, len(case.works)), strict=True):
            pool = stack.enter_context(get_context("fork").Pool(size))
            batches = pool.imap(work, batches)
        deque(batches, maxlen=0)


def share_evenly(whole: int, parts: int) -> list[int]:
    """Divide the workers among the stages as evenly as possible, at least one per stage."""
    return [max(1, whole // parts + (index < whole % parts)) for index in range(parts)]


def _cut(items: Items, size: int) -> list[Items]:
    return [items[start : start + size] for start in range(0, len(items), size)]
