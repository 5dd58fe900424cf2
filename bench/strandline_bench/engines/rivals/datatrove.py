"""datatrove's local executor on a case: each of its tasks takes a share of the items through all.

What goes through its steps is what a generator yields, so items are yielded as they are.
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

_SHARES = 8  # share of the items for each worker, so that one with much to do holds fewer back


class Listed(PipelineStep):  # type: ignore[misc]  # it comes without types
    """Yields a share of the items."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self._items = case.items()

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> Iterator[Any]:  # noqa: ANN401, ARG002 - its interface
        """Yield every so-manieth item."""
        yield from self._items[rank::world_size]


class Working(PipelineStep):  # type: ignore[misc]  # it comes without types
    """Calls a work, batch by batch."""

    def __init__(self, work: Work, batch: int) -> None:
        super().__init__()
        self._work, self._batch = work, batch

    def run(self, data: Iterable[Any], rank: int = 0, world_size: int = 1) -> Iterator[Any]:  # noqa: ARG002 - its interface
        """Yield what the work leaves."""
        items = iter(data)
        while batch := list(islice(items, self._batch)):
            yield from self._work(batch)


def run(case: Case, folder: Path, begin: Callable[[], None]) -> None:
    """Run the case in its local executor."""
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
