"""With many idle pipelines, the measurements cover only the running ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from api_server import NoApiServerError
from strandline_bench.operator.bench import Load
from strandline_bench.operator.many import observe_many, plan_load

NAMESPACES_ASK = {"STRANDLINE_SETTLE": "1", "STRANDLINE_PULL_INTERVAL": "1"}


def test_one_pipeline_of_ten_runs() -> None:
    load = plan_load(5000, rest=15.0)
    assert (load.pipelines, load.beside, load.pace) == (500, 4500, 5.0)
    assert load.what == "operator, 5,000 pipelines of which 500 run"
    assert Load(1000).what == "operator, 1,000 pipelines"


def test_idle_pipelines_are_neither_awaited_nor_run(tmp_path: Path) -> None:
    load = Load(2, rest=0.0, longest=150.0, beside=9, settings=NAMESPACES_ASK)
    try:
        findings = observe_many(load, tmp_path)
    except NoApiServerError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    moments = findings.moments
    assert sorted(name for _, name in moments.phases) == ["corpus-0", "corpus-1"]
    assert set(moments.phases.values()) == {"Succeeded"}
    assert len(moments.first_delays) == len(moments.end_delays) == len(moments.applied) == 2
    assert findings.requests["POST rayjobs.ray.io"] == 2
    # Requests for idle pipelines at the operator's start are not counted. The eight ended pipelines
    # need no status update, because the operator itself had left their statuses.
    assert findings.begun.requests["GET persistentvolumeclaims"] >= 8
    assert findings.begun.requests["PUT curationpipelines.strandline.dev"] < 8
