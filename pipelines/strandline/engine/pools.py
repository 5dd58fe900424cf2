"""How many workers each stage gets, and what each reserves. Pure; fixed for an attempt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from strandline.plan.pipeline import StagePlan

QUEUE_FACTOR = 2
CALLS_PER_WORKER = 2


@dataclass(frozen=True, slots=True)
class RayOptions:
    """Where and with what the Ray engine runs.

    Attributes:
        address: of an existing cluster; None starts a local one.
        workers: CPUs of the local one; None: the machine's.
        output: folder or URL of the output.
        writer: the attempt, for temporary names.
        writers_lock: held shared by every sink worker on this host; None: no lock.
        keeps_sinks: the output is a folder of the driver's node, so sinks must run there.
    """

    address: str | None
    workers: int | None
    output: str
    writer: str = "0000"
    writers_lock: Path | None = None
    keeps_sinks: bool = False


class PoolSize(NamedTuple):
    """Workers of a stage, and the CPUs that each reserves."""

    workers: int
    cpu: float


def size_pools(stages: Sequence[StagePlan], cpus: float) -> list[PoolSize]:
    """Workers for each stage on a cluster with that many CPUs free.

    Each stage gets its minimum. Where even that is more than there is, all reserve less, in
    proportion, and share the cores; where some is left, stages get one more in turn, up to their
    maximum.
    """
    workers = [stage.min_workers for stage in stages]
    needed = sum(count * stage.cpu for count, stage in zip(workers, stages, strict=True))
    if needed > cpus:
        # Reservations are kept a little below the whole, since fractions are rounded up by Ray.
        share = 0.95 * cpus / needed
        return [
            PoolSize(count, int(stage.cpu * share * 1000) / 1000)
            for count, stage in zip(workers, stages, strict=True)
        ]
    has_grown = True
    while has_grown:
        has_grown = False
        for index, stage in enumerate(stages):
            bound = stage.max_workers or cpus
            if 0 < stage.cpu <= cpus - needed and workers[index] < bound:
                workers[index] += 1
                needed += stage.cpu
                has_grown = True
    return [PoolSize(count, stage.cpu) for count, stage in zip(workers, stages, strict=True)]


def bound_queue(stage: StagePlan, workers: int) -> int:
    """Slots that may wait for a stage before the one above it is held back."""
    return stage.batch_size * (QUEUE_FACTOR * workers + 1)
