"""A valid document has a defined meaning: names, defaults, and numbers in base units."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from pydantic import ValidationError

from pipeline_documents import SMALLEST, pipelines, with_change
from strandline_api.documents.documents import parse_pipeline
from strandline_api.objects.pipeline import CurationPipeline
from strandline_api.outcome.causes import RETRYABLE_CAUSES
from strandline_api.spec.policy import Quarantine, RetryPolicy
from strandline_api.spec.work import SinkWork, SourceWork, StageWork, WorkerBounds


def spec_with(path: str, value: object) -> Any:
    return parse_pipeline(with_change(f"spec.{path}", value)).spec


def test_the_smallest_pipeline_has_all_defaults() -> None:
    pipeline = parse_pipeline(SMALLEST)
    spec = pipeline.spec
    assert (pipeline.metadata.name, pipeline.metadata.namespace) == ("corpus", "default")
    assert spec.source.with_ == {"glob": "*.txt"}
    stage = spec.stages[0]
    assert (stage.batch_size, stage.group, stage.with_, stage.runtime_env) == (1, None, {}, {})
    assert (stage.workers.min, stage.workers.max) == (1, None)
    resources = stage.resources
    assert (resources.cpu, resources.memory, resources.memory_bytes) == (1, None, None)
    assert (resources.gpu, resources.custom) == (0, {})
    assert (spec.run_id, spec.on_change, spec.suspend) == ("first", "Fail", False)
    assert (spec.attempt_history_limit, spec.ttl_after_finished_seconds) == (10, None)
    assert (spec.on_worker_loss.oom, spec.on_worker_loss.disruption) == ("Recreate", "Absorb")


def test_policies_have_the_published_defaults() -> None:
    spec = parse_pipeline(SMALLEST).spec
    retry = spec.retry
    assert (retry.max_retries, retry.backoff, retry.multiplier) == (3, "exponential", 2)
    assert (retry.delay_seconds, retry.max_delay_seconds) == (60, 3600)
    assert (retry.jitter, retry.jitter_ratio) == ("deterministic", 0.25)
    assert retry.eligible_causes == RETRYABLE_CAUSES
    assert (retry.disruptions.max_retries, retry.max_attempts) == (100, 1000)
    assert (retry.reset_on_progress, retry.emit_retry_events) == (True, True)
    assert (spec.quarantine.after, spec.quarantine.tolerate) == (3, 0)
    assert (spec.oom.memory_factor, spec.oom.max_memory_bytes) == (1.5, None)
    checkpoint = spec.checkpoint
    assert (checkpoint.interval_seconds, checkpoint.grace_period_seconds) == (60, 30)
    assert checkpoint.keep_last == 3
    limits = spec.deadlines
    assert (limits.attempt_seconds, limits.pre_running_seconds, limits.run_seconds) == (
        None,
        None,
        None,
    )
    assert limits.stall_seconds == 600


def test_cluster_fields_have_defaults() -> None:
    spec = parse_pipeline(SMALLEST).spec
    assert spec.storage.ledger.claim_size == "10Gi"
    assert (spec.storage.ledger.access_mode, spec.storage.retention) == ("ReadWriteOnce", "Retain")
    assert (spec.storage.output.url, spec.storage.output.claim_name) == (None, None)
    assert spec.ray.head.resources.memory_bytes == 4 * 2**30
    assert (spec.ray.worker_groups, spec.ray.submission_mode) == ((), "K8sJobMode")


def test_amounts_keep_their_text_and_give_numbers() -> None:
    spec = spec_with("stages.0.resources", {"memory": "1.5Gi", "custom": {"nvdec": 1}})
    assert spec.stages[0].resources.memory == "1.5Gi"
    assert spec.stages[0].resources.memory_bytes == 3 * 2**29
    assert spec.stages[0].resources.custom == {"nvdec": 1}
    assert spec_with("oom.maxMemory", "1Ki").oom.max_memory_bytes == 1024
    assert spec_with("storage.ledger.size", 4096).storage.ledger.claim_size == "4096"
    assert spec_with("ttlAfterFinished", "1d").ttl_after_finished_seconds == 86400
    limits = spec_with("deadlines", {"attempt": "1h", "preRunning": "5m", "run": 7}).deadlines
    assert (limits.attempt_seconds, limits.pre_running_seconds, limits.run_seconds) == (
        3600,
        300,
        7,
    )


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("min-words", "min-words"),
        ("my.stages:MinWords", "min-words"),
        ("m:HTMLParser", "html-parser"),
        ("m:Utf8Check", "utf-8-check"),
        ("m:snake_case", "snake-case"),
        ("m:Outer.Inner", "inner"),
        ("m:HTML", "html"),
        ("m:_", "unnamed"),
        ("m:" + "A" * 100, "a" * 63),
    ],
)
def test_an_item_is_named_after_its_stage(use: str, expected: str) -> None:
    assert SourceWork(use=use).name == expected


def test_a_given_name_wins() -> None:
    assert spec_with("stages.0.name", "short").stages[0].name == "short"


def test_items_are_listed_in_order_with_their_paths() -> None:
    items = parse_pipeline(SMALLEST).spec.items
    assert list(items) == ["source", "stages[0]", "stages[1]", "sink"]
    assert [type(item) for item in items.values()] == [SourceWork, StageWork, StageWork, SinkWork]


@pytest.mark.parametrize(
    ("written", "total", "expected"),
    [(0, 10, 0), (7, 10, 7), ("1%", 1000, 10), ("1%", 199, 1), ("0.5%", 200, 1), ("100%", 3, 3)],
)
def test_tolerance_is_a_count_or_a_share_rounded_down(
    written: object, total: int, expected: int
) -> None:
    assert Quarantine.model_validate({"tolerate": written}).tolerated(total) == expected


@pytest.mark.parametrize(("written", "expected"), [(None, 86400), ("48h", 86400), ("5m", 300)])
def test_no_wait_is_longer_than_a_day(written: object, expected: int) -> None:
    assert RetryPolicy.model_validate({"maxDelay": written}).max_delay_seconds == expected


def test_a_retry_policy_records_the_given_fields() -> None:
    assert RetryPolicy.model_validate({"delay": "5s"}).model_fields_set == {"delay"}
    assert RetryPolicy.model_validate({"maxDelay": None}).model_fields_set == {"max_delay"}


def test_null_means_absent_as_it_does_on_a_cluster() -> None:
    document = with_change("spec.retry", {"delay": None, "jitter": None})
    document["spec"]["stages"][0]["with"] = None
    document["spec"]["suspend"] = None
    document["status"] = None
    pipeline = parse_pipeline(document)
    assert pipeline == parse_pipeline(SMALLEST)
    assert pipeline.spec.retry.model_fields_set == frozenset()


def test_metadata_added_by_a_cluster_is_ignored() -> None:
    document = with_change("status", {"phase": "Running", "attempts": [1]})
    document["metadata"] |= {"uid": "1", "managedFields": [], "labels": {"a": "b"}}
    pipeline = parse_pipeline(document)
    assert pipeline.spec == parse_pipeline(SMALLEST).spec
    assert pipeline.metadata.labels == {"a": "b"}


def test_python_names_of_fields_are_accepted() -> None:
    stage = StageWork(use="a", batch_size=4, runtime_env={"pip": ["x"]})
    assert stage == StageWork.model_validate(
        {"use": "a", "batchSize": 4, "runtimeEnv": {"pip": ["x"]}}
    )


def test_a_pipeline_cannot_be_changed() -> None:
    change: Any = WorkerBounds(min=2)
    with pytest.raises(ValidationError, match="frozen"):
        change.min = 3


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(pipelines)
def test_a_pipeline_survives_being_written_and_read(document: dict[str, Any]) -> None:
    pipeline = parse_pipeline(document)
    assert parse_pipeline(pipeline.model_dump(by_alias=True)) == pipeline
    through_json = json.loads(pipeline.model_dump_json(by_alias=True))
    assert CurationPipeline.model_validate(through_json) == pipeline


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(pipelines)
def test_missing_fields_are_not_written(document: dict[str, Any]) -> None:
    written = parse_pipeline(document).model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert written == json.loads(json.dumps(document))
