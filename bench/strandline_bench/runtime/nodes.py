"""Measures scaling over nodes, with Ray nodes as processes of this machine."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path

import ray
from ray.cluster_utils import Cluster

from strandline.engine.ray.local.start import START_SECONDS, waiting_for_node
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline_api.outcome.exit_codes import ExitCode
from strandline_bench.engines.cases import build_skewed
from strandline_bench.engines.rates import find_steady_rate
from strandline_bench.engines.records import Recorded, explain_difference, read_marks, sum_marks
from strandline_bench.engines.rivals.ours import plan_case
from strandline_bench.engines.work.works import Nap
from strandline_bench.ground.folders import join_python_path
from strandline_bench.ground.scale import Scale, run_apart
from strandline_bench.ground.table import Row, format_number, reach

_NODES = (1, 2, 4, 8)
_CPUS = 2  # logical CPUs per node: a sleeping worker needs no core
_NAP = 0.02
_LEAST = 90.0  # percent of ideal scaling
_STORE_BYTES = 100_000_000


def measure_nodes(scale: Scale) -> list[Row]:
    """Run sleeps on clusters of one to eight nodes, with the same amount of work per node."""
    count = scale.pick(2_000, 60)
    rows = []
    for nodes in _NODES[1:2] if scale.is_quick else _NODES:
        rate = run_apart(_measure, scale.folder / f"nodes-{nodes}", count * nodes, nodes)
        what = f"naps of {_NAP * 1000:g} ms, nodes of {_CPUS} CPUs: {nodes}"
        rows.append(Row(what, f"{format_number(rate, 'tasks')} a second"))
        rows.append(
            reach(f"{what}, of the ideal", rate * _NAP / (nodes * _CPUS) * 100, _LEAST, "%")
        )
    return rows


def _measure(folder: Path, count: int, nodes: int) -> float:
    """Return tasks per second once all workers are running."""
    folder.mkdir(parents=True)
    case = build_skewed(count, folder, nodes * _CPUS)
    # Use sleeps of equal length, so that the ideal time is known.
    case = replace(case, works=(Recorded(Nap(_NAP), folder),))
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["PYTHONPATH"] = join_python_path()
    cluster = Cluster()
    try:
        with waiting_for_node(START_SECONDS):
            for _ in range(nodes):
                cluster.add_node(num_cpus=_CPUS, object_store_memory=_STORE_BYTES)
        ray.init(cluster.address, logging_level=logging.ERROR, log_to_driver=False)
        plan = plan_case(case, folder / "output")
        outcome = run_attempt(AttemptConfig(plan, folder / "volume", "ray"))
    finally:
        ray.shutdown()
        cluster.shutdown()
    if outcome.code is not ExitCode.COMPLETE:
        raise RuntimeError(outcome.message)
    marks = read_marks(folder)
    if case.expected is not None and (wrong := explain_difference(case.expected, sum_marks(marks))):
        raise RuntimeError(wrong)
    return find_steady_rate(marks)
