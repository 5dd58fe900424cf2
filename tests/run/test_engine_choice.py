"""The choice of the engine: the requested engine, or one without Ray if that suffices."""

from __future__ import annotations

from typing import Any

import pytest

from strandline.plan.pipeline import StagePlan
from strandline.plan.planning import check_plan
from strandline.run.attempt.engines import choose_engine
from strandline.stages import Files, ParquetSink, ReadFiles
from strandline_api.objects.pipeline import PipelineSpec


def make_spec(stage: dict[str, Any] | None = None, **more: Any) -> PipelineSpec:
    return PipelineSpec.model_validate(
        {
            "source": {"use": "files", "with": {"paths": ["in/*"]}},
            "stages": [{"use": "read-files", **(stage or {})}],
            "sink": {"use": "parquet"},
            **more,
        }
    )


@pytest.fixture(autouse=True)
def no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


def test_a_run_on_one_machine_starts_no_ray_by_default() -> None:
    assert choose_engine(None, make_spec(), None) == "processes"


@pytest.mark.parametrize("asked", ["inline", "processes", "ray"])
def test_a_requested_engine_is_used(asked: str) -> None:
    assert choose_engine(asked, make_spec({"resources": {"gpu": 1}}), "auto") == asked


def test_an_engine_named_in_the_file_is_used() -> None:
    assert choose_engine(None, make_spec(engine="ray"), None) == "ray"


def test_an_existing_ray_cluster_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_engine(None, make_spec(), "auto") == "ray"
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:6379")
    assert choose_engine(None, make_spec(), None) == "ray"


@pytest.mark.parametrize(
    "stage",
    [
        {"resources": {"gpu": 0.5}},
        {"resources": {"memory": "2Gi"}},
        {"resources": {"custom": {"nvdec": 1}}},
        {"resources": {"cpu": 2}},
        {"runtimeEnv": {"env_vars": {"A": "b"}}},
    ],
)
def test_features_that_only_ray_has_choose_ray(stage: dict[str, Any]) -> None:
    assert choose_engine(None, make_spec(stage), None) == "ray"
    assert choose_engine(None, make_spec({"resources": {"cpu": 0.5}}), None) == "processes"


@pytest.mark.parametrize(("gpu", "engine"), [(0.0, "processes"), (1.0, "ray")])
def test_resources_requested_by_a_stage_count_too(gpu: float, engine: str) -> None:
    source = StagePlan("files", "files", Files(paths=["in/*"]))
    stages = [
        StagePlan("read", "read-files", ReadFiles(), gpu=gpu),
        StagePlan("parquet", "parquet", ParquetSink()),
    ]
    plan = check_plan("default", "notes", source, stages)
    assert choose_engine(None, make_spec(), None, plan) == engine
