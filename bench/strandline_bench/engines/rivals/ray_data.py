"""Runs a case on Ray Data in two forms: one actor pool per stage, and fused functions.

With actor pools, as in Strandline, each batch is a block, and Ray Data schedules the stages
separately. With functions, as Ray Data's guide recommends, Ray Data fuses all stages into one task.
For small items, Ray Data then also chooses the blocks.
"""

from __future__ import annotations

import logging
import pickle
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import ray
from ray.data import ActorPoolStrategy, DataContext, Dataset

from strandline_bench.engines.work.works import Items, Spread, Work

if TYPE_CHECKING:  # keep workers from importing the modules of the examples
    from strandline_bench.engines.cases import Case

_COLUMN = "item"


class BatchFormat:
    """Representation of items in Ray Data's batches.

    Args:
        kind: type of the items, such as `number`.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self.format = "numpy" if kind == "block" else "pyarrow"

    def render_rows(self, items: Items) -> list[dict[str, Any]]:
        """Return the input rows."""
        is_task = self._kind == "task"
        return [{_COLUMN: pickle.dumps(item) if is_task else item} for item in items]

    def read(self, batch: Any) -> Items:  # noqa: ANN401 - a table or arrays
        """Return the items of a batch."""
        if self._kind == "block":
            column = batch[_COLUMN]
            return column.tolist() if column.ndim == 1 else list(column)
        items: Items = batch.column(_COLUMN).to_pylist()
        return [pickle.loads(item) for item in items] if self._kind == "task" else items  # noqa: S301 - our own

    def render(self, items: Items) -> Any:  # noqa: ANN401 - a table or arrays
        """Convert items to a batch; an empty batch has the format of numbers."""
        if self._kind == "block":
            return {_COLUMN: np.stack(items) if len(items) > 1 else np.asarray(items)}
        if self._kind == "task":
            items = [pickle.dumps(item) for item in items]
        kind = pa.int64() if self._kind == "number" else pa.large_binary()
        return pa.table({_COLUMN: pa.array(items, kind)})


class Working:
    """An actor that calls a stage's work function."""

    def __init__(self, work: Work, batch_format: BatchFormat) -> None:
        self._work, self._batch_format = work, batch_format

    def __call__(self, batch: Any) -> Any:  # noqa: ANN401 - a table or arrays
        return self._batch_format.render(self._work(self._batch_format.read(batch)))


def run_cut(case: Case, folder: Path, begin: Callable[[], None]) -> None:  # noqa: ARG001 - as all rivals
    """Run the case with a pool of actors per stage and a block per batch."""
    batch_format = BatchFormat(case.kind)
    rows = batch_format.render_rows(case.items())
    _quieten()
    begin()
    dataset = ray.data.from_items(rows, override_num_blocks=-(-len(rows) // case.batch))
    for index, work in enumerate(case.works):
        dataset = dataset.map_batches(
            Working,
            fn_constructor_args=(work, batch_format),
            batch_size=case.batch,
            batch_format=batch_format.format,
            compute=_choose_pool(case, index),
            num_cpus=case.cpu,
        )
        if isinstance(work, Spread):  # otherwise all its items form one block for one actor
            dataset = dataset.repartition(target_num_rows_per_block=case.batch)
    _drain(dataset)


def run_fused(case: Case, folder: Path, begin: Callable[[], None]) -> None:  # noqa: ARG001 - as all rivals
    """Run the case with functions, which Ray Data fuses into one task."""
    batch_format = BatchFormat(case.kind)
    rows = batch_format.render_rows(case.items())
    blocks = None if case.kind == "bytes" else -(-len(rows) // case.batch)
    _quieten()
    begin()
    dataset = ray.data.from_items(rows, override_num_blocks=blocks)
    for work in case.works:
        dataset = dataset.map_batches(
            _make_function(work, batch_format),
            batch_size=case.batch,
            batch_format=batch_format.format,
            num_cpus=1,
        )
    _drain(dataset)


def _make_function(work: Work, batch_format: BatchFormat) -> Callable[[Any], Any]:
    def call(batch: Any) -> Any:  # noqa: ANN401 - a table or arrays
        return batch_format.render(work(batch_format.read(batch)))

    return call


def _choose_pool(case: Case, index: int) -> ActorPoolStrategy:
    if case.is_sized:
        return ActorPoolStrategy(size=case.sizes[index])
    return ActorPoolStrategy(min_size=1, max_size=case.cpus)


def _drain(dataset: Dataset) -> None:
    deque(dataset.iter_batches(batch_size=None, batch_format="pyarrow"), maxlen=0)


def _quieten() -> None:
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    DataContext.get_current().enable_progress_bars = False
