"""One local Ray for all that is compared, so that each competitor has the same."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ray

_STORE_BYTES = 400_000_000


@contextmanager
def started_ray(folder: Path) -> Iterator[None]:
    """A Ray that sees this machine's cores and this folder's modules."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(
        num_cpus=len(os.sched_getaffinity(0)),
        include_dashboard=False,
        logging_level=logging.ERROR,
        log_to_driver=False,
        object_store_memory=_STORE_BYTES,
        _temp_dir=str(folder),
    )
    try:
        yield
    finally:
        ray.shutdown()
