"""Runs a case on datatrove's local executor: each task processes a share of the items.

datatrove's steps are generators, so items are yielded unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.base import PipelineStep

from strandline_bench.engines.cases import Case
from strandline_bench.engines.work.works import Work

_SHARES = 8  # shares per worker, so that a slow share contains fewer items


class Listed(PipelineStep):  # type: ignore[misc]  # it comes without types
    """Yields a share of the items."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self._items = case.items()

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> Iterator[Any]:  # noqa: ANN401, ARG002 - its interface
        """Yield every n-th item."""
        yield from self._items[rank::world_size]


class Working(PipelineStep):  # type: ignore[misc]  # it comes without types
    """Calls a work function on each batch."""

    def __init__(self, work: Work, batch: int) -> None:
        super().__init__()
        self._work, self._batch = work, batch

    def run(self, data: Iterable[Any], rank: int = 0, world_size: int = 1) -> Iterator[Any]:  # noqa: ARG002 - its interface
        """Yield the results of the work."""
        items = iter(data)
        while batch := list(islice(items, self._batch)):
            yield from self._work(batch)


def run(case: Case, folder: Path, begin: Callable[[], None]) -> None:
    """Run the case on the local executor."""
    steps = [Listed(case), *(Working(work, case.batch) for work in case.works)]
    executor = LocalPipelineExecutor(
        steps,
        tasks=min(case.count, _SHARES * case.cpus),
        workers=case.cpus,
        logging_dir=str(folder / "logs"),
        start_method="fork",
    )
    begin()
    executor.run()
