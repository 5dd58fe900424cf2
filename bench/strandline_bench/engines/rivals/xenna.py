"""Runs a case in Cosmos-Xenna's streaming mode, with an autoscaled pool per stage."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import ray
from cosmos_xenna.pipelines import v1 as xenna

from strandline_bench.engines.work.works import Items, Work

if TYPE_CHECKING:  # keep workers from importing the modules of the examples
    from strandline_bench.engines.cases import Case

# Ray reads these variables at its start. Xenna lists more actors per query than Ray's default
# limit.
ENVIRONMENT = {
    "RAY_MAX_LIMIT_FROM_API_SERVER": "40000",
    "RAY_MAX_LIMIT_FROM_DATA_SOURCE": "40000",
}
_RESCALE_SECONDS = 5.0  # the default of three minutes is longer than these runs
_QUIET = xenna.VerbosityLevel.NONE


class Working(xenna.Stage):  # type: ignore[misc]  # it comes without types
    """A Xenna stage that calls a work function."""

    def __init__(self, work: Work, batch: int, cpu: float) -> None:
        self._work, self._batch, self._cpu = work, batch, cpu

    @property
    def required_resources(self) -> xenna.Resources:
        """CPUs per worker."""
        return xenna.Resources(cpus=self._cpu)

    @property
    def stage_batch_size(self) -> int:
        """Items per call."""
        return self._batch

    def process_data(self, in_data: Items) -> Items:
        """Return the results of the work."""
        return self._work(in_data)


def run(case: Case, folder: Path, begin: Callable[[], None]) -> None:  # noqa: ARG001 - as all rivals
    """Run the case in streaming mode."""
    stages = [
        xenna.StageSpec(
            Working(work, case.batch, case.cpu), num_workers=size if case.is_sized else None
        )
        for work, size in zip(case.works, case.sizes, strict=True)
    ]
    spec = xenna.PipelineSpec(input_data=case.items(), stages=stages, config=_configure(case))
    # Several Ray clusters may run on the machine. This address selects the cluster for Xenna's
    # monitor.
    os.environ["RAY_ADDRESS"] = ray.get_runtime_context().gcs_address
    begin()
    xenna.run_pipeline(spec)


def _configure(case: Case) -> xenna.PipelineConfig:
    return xenna.PipelineConfig(
        execution_mode=xenna.ExecutionMode.STREAMING,
        enable_work_stealing=case.name == "skewed",
        logging_interval_s=3600,
        cpu_allocation_percentage=1.0,
        actor_pool_verbosity_level=_QUIET,
        monitoring_verbosity_level=_QUIET,
        mode_specific=xenna.StreamingSpecificSpec(
            autoscale_interval_s=_RESCALE_SECONDS,
            autoscale_speed_estimation_window_duration_s=60.0,
            executor_verbosity_level=_QUIET,
        ),
    )
