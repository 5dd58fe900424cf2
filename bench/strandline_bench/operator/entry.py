"""Runs the operator as in production, and also logs the cost of each pass.

    STRANDLINE_BENCH_PASSES     file: a line per pass: end, CPU time in ms, length in ms
    STRANDLINE_BENCH_PROFILE    file: if set, profiles everything (and runs much slower)

The variables are optional.
"""

from __future__ import annotations

import cProfile
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from strandline_bench.operator.meter import meter
from strandline_operator.__main__ import main
from strandline_operator.reconcile import service
from strandline_operator.reconcile.scheduling.queue import PassResult, Queue
from strandline_operator.reconcile.scheduling.schedule import Key

PASSES = "STRANDLINE_BENCH_PASSES"
PROFILE = "STRANDLINE_BENCH_PROFILE"


def run() -> None:
    """Run the operator with the arguments of this process."""
    with Path(os.environ[PASSES]).open("a", encoding="utf-8") as lines:

        def note(cost: float, seconds: float) -> None:
            lines.write(f"{time.time():.3f} {cost * 1000:.3f} {seconds * 1000:.3f}\n")

        class MeteredQueue(Queue):
            def __init__(
                self,
                run: Callable[[Key], Awaitable[PassResult]],
                **others: Any,  # noqa: ANN401 - whatever a queue takes
            ) -> None:
                async def look(key: Key) -> PassResult:
                    return await run(key)

                super().__init__(meter(look, time.thread_time, time.monotonic, note), **others)

        # Replace the queue class, because the operator has no metric for the cost of a pass.
        service.Queue = MeteredQueue  # type: ignore[attr-defined]
        main()


if __name__ == "__main__":
    if os.environ.get(PROFILE):
        # Profile the main thread only: the operator's other threads do almost nothing.
        profile = cProfile.Profile(time.thread_time)
        try:
            profile.runcall(run)
        finally:
            profile.dump_stats(os.environ[PROFILE])
    else:
        run()
