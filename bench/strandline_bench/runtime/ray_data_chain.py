"""The chain of the benchmark in Ray Data: three `map_batches` on pools of one actor.

Each batch is a block.
"""

from __future__ import annotations

import logging
import time
from typing import Any

import ray
from ray.data import ActorPoolStrategy, DataContext

from strandline_bench.ground.stages import BATCH, PAYLOAD
from strandline_bench.ground.steady_rate import SteadyRate


class PassRows:
    """Returns a batch of rows unchanged."""

    def __call__(self, rows: Any) -> Any:  # noqa: ANN401 - a table, in Ray Data's format
        return rows


def run_ray_data(count: int) -> float:
    """Return the steady-state seconds per task in Ray Data."""
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    DataContext.get_current().enable_progress_bars = False
    blocks = -(-count // BATCH)
    rows: Any = ray.data.from_items(
        [{"payload": PAYLOAD} for _ in range(count)], override_num_blocks=blocks
    )
    for _ in range(3):
        rows = rows.map_batches(
            PassRows,
            batch_size=BATCH,
            batch_format="pyarrow",
            compute=ActorPoolStrategy(size=1),
            num_cpus=0.1,
        )
    rate, done = SteadyRate(count, time.perf_counter), 0
    for batch in rows.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
        done += batch.num_rows
        rate.note(done)
    return rate.seconds_per_task
