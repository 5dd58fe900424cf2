"""Being connected to Ray: a local one of our own, an existing one, or the caller's."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import ray


@contextmanager
def connected(address: str | None, workers: int | None) -> Iterator[float]:
    """Connect to Ray for the time of a run; yields the CPUs that are free.

    Args:
        address: of an existing cluster, such as `auto` or `ray://head:10001`; None starts a local
            one, unless this process is connected already.
        workers: CPUs of the local one; None: as many as this process may use.

    Raises:
        ConnectionError: there is no cluster at the address.
    """
    if ray.is_initialized():
        yield ray.available_resources().get("CPU", 0.0)
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    folder = None if address else tempfile.mkdtemp(prefix="strandline-")
    try:
        if address:
            ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
        else:
            ray.init(
                num_cpus=workers or len(os.sched_getaffinity(0)),
                include_dashboard=False,
                logging_level=logging.ERROR,
                log_to_driver=False,
                _temp_dir=folder,
            )
        yield ray.available_resources().get("CPU", 0.0)
    finally:
        ray.shutdown()
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
