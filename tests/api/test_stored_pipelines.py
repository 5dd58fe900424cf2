"""Older and newer programs read stored pipelines, and only report unknown fields."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pipeline_documents import SMALLEST, pipelines, with_change
from stored_documents import plant_unknown, store
from strandline_api.documents.documents import parse_pipeline
from strandline_api.documents.problems import SpecError
from strandline_api.documents.stored import (
    OPERATORS_OWN,
    describe_unknown,
    forward_document,
    is_stored,
    omit_unknown,
    parse_stored_pipeline,
    render_document,
)
from strandline_api.names import LICENSE_ANNOTATION, STORED_ANNOTATION, TITLE_ANNOTATION
from strandline_api.objects.pipeline import CurationPipeline, PipelineSpec
from strandline_api.objects.removed_engine import ENGINE_REMOVED
from strandline_api.schema.crd import pipeline_definition
from strandline_api.spec.policy import RetryPolicy

DEFINITION = pipeline_definition()
RUNTIME = Path(__file__).parents[2] / "pipelines" / "strandline"


def place(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document with the metadata of a stored object."""
    return {**document, "metadata": {"name": "corpus", "namespace": "team", "uid": "1"}}


def without_operators_own(spec: PipelineSpec) -> dict[str, Any]:
    fields = PipelineSpec.model_fields.items()
    return {name: getattr(spec, name) for name, field in fields if field.alias not in OPERATORS_OWN}


@given(pipelines)
def test_law_fields_of_a_later_release_change_nothing_and_are_all_named(
    document: dict[str, Any],
) -> None:
    grown, planted = plant_unknown(store(document, DEFINITION), DEFINITION)
    read = parse_stored_pipeline(grown)
    assert read.pipeline.spec == parse_pipeline(document).spec
    assert set(read.unknown) == planted
    assert len(read.unknown) == len(planted)


def test_a_file_with_unknown_fields_is_rejected() -> None:
    with pytest.raises(SpecError, match="unknown field 'tomorrow'"):
        parse_pipeline(with_change("spec.tomorrow", {"colour": "blue"}))


def test_a_document_without_unknown_fields_is_read_unchanged() -> None:
    document = store(SMALLEST, DEFINITION)
    before = copy.deepcopy(document)
    assert parse_stored_pipeline(document) == (parse_pipeline(document), ())
    assert document == before


def test_errors_are_reported_without_ignored_fields() -> None:
    document = with_change("spec.stages.1.batchSize", 0)
    document["spec"]["tomorrow"] = 1
    with pytest.raises(SpecError) as caught:
        parse_stored_pipeline(document)
    assert [each.path for each in caught.value.problems] == ["spec.stages[1].batchSize"]


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("spec.engine", "dask", "spec.engine: must be 'ray', not 'dask'"),
        (
            "spec.engine",
            "inline",
            "spec.engine: must be 'ray'; choose another engine on the command line: "
            "`strandline run --engine inline`",
        ),
        ("spec.onChange", "Ask", "spec.onChange: must be 'Fail', 'Restart', 'Continue' or 'Redo'"),
        ("spec.storage.retention", "Archive", "spec.storage.retention: must be 'Retain' or"),
    ],
)
def test_an_unknown_value_in_a_known_field_is_rejected(path: str, value: str, said: str) -> None:
    # The program must not guess the engine or the reaction to a change.
    document = with_change(path, value)
    document["spec"]["tomorrow"] = 1
    with pytest.raises(SpecError) as caught:
        parse_stored_pipeline(document)
    assert str(caught.value).startswith(said)


def test_a_stored_pipeline_on_the_removed_engine_is_refused_in_one_sentence() -> None:
    # The CRD still accepts the value, because an API server validates each update of an object that
    # has the value.
    assert find_engines(DEFINITION) == ["ray", "ray-data"]
    with pytest.raises(SpecError) as caught:
        parse_stored_pipeline(with_change("spec.engine", "ray-data"))
    assert str(caught.value) == f"spec.engine: {ENGINE_REMOVED}"
    assert ENGINE_REMOVED.endswith("use 'ray', which continues its ledgers")


def find_engines(definition: dict[str, Any]) -> list[str]:
    """Return the values of `spec.engine` that a CRD accepts."""
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    engines: list[str] = schema["properties"]["spec"]["properties"]["engine"]["enum"]
    return engines


def test_an_unknown_field_is_found_behind_another_mistake() -> None:
    # Worker bounds may also be a bare number, and Pydantic then does not report their unknown
    # fields.
    document = with_change("spec.source.workers", {"tomorrow": {"min": 2}})
    document["spec"]["sink"]["workers"] = {"later": 1}
    known, unknown = omit_unknown(document, CurationPipeline)
    assert known["spec"]["source"]["workers"] == known["spec"]["sink"]["workers"] == {}
    assert sorted(unknown) == ["spec.sink.workers.later", "spec.source.workers.tomorrow"]
    assert document["spec"]["sink"]["workers"] == {"later": 1}


@pytest.mark.parametrize("document", [None, 7, "text", [], {}, {"kind": "RayJob", "x": 1}])
def test_an_invalid_pipeline_is_rejected(document: object) -> None:
    with pytest.raises(SpecError):
        parse_stored_pipeline(document)


def test_unknown_fields_of_any_model_can_be_omitted() -> None:
    assert omit_unknown({"maxRetries": 1, "tries": 2}, RetryPolicy) == (
        {"maxRetries": 1},
        ("tries",),
    )
    assert omit_unknown([1], RetryPolicy) == ([1], ())


@given(pipelines, st.booleans())
def test_law_a_drivers_document_has_the_same_meaning(
    document: dict[str, Any], is_grown: bool
) -> None:
    full = store(place(document), DEFINITION)
    if is_grown:
        full, _ = plant_unknown(full, DEFINITION)
    spec = parse_stored_pipeline(full).pipeline.spec
    before = copy.deepcopy(full)
    handed = forward_document(full, spec)
    assert full == before
    read = parse_pipeline(handed)  # as strictly as drivers of the last release
    assert without_operators_own(read.spec) == without_operators_own(spec)
    assert (read.metadata.name, read.metadata.namespace) == ("corpus", "team")


def test_a_drivers_document_omits_defaults_and_operator_fields() -> None:
    full = store(place(SMALLEST), DEFINITION)
    assert full["spec"]["storage"]["ledger"] == {"accessMode": "ReadWriteOnce"}
    full["spec"]["ray"] |= {"image": "mine:1"}
    full["spec"]["checkpoint"] |= {"keepLast": 7}
    full["spec"]["stages"][0] |= {"batchSize": 1, "resources": {"cpu": 1, "gpu": 0.5}}
    full["spec"]["retry"] = {"maxDelay": None, "delay": "60s"}
    handed = forward_document(full, parse_pipeline(full).spec)
    assert handed["spec"] == {
        **SMALLEST["spec"],
        "stages": [
            {"use": "min-words", "resources": {"gpu": 0.5}},
            {"use": "my_stages.text:FixUnicode"},
        ],
        "checkpoint": {"keepLast": 7},
    }


def test_license_and_name_of_the_data_set_reach_the_driver() -> None:
    """A run that delivers its data set writes its license and name into the card."""
    full = place(SMALLEST)
    chosen = {LICENSE_ANNOTATION: "mit", TITLE_ANNOTATION: "Sea letters"}
    full["metadata"]["annotations"] = {**chosen, "argocd.example/id": "7"}
    handed = forward_document(full, parse_pipeline(full).spec)
    assert handed["metadata"]["annotations"] == {STORED_ANNOTATION: "true", **chosen}


def test_free_form_objects_are_passed_on_unchanged() -> None:
    parameters = {"tomorrow": None, "cpu": 1, "deep": {"name": None, "list": [{"x": None}]}}
    full = place(with_change("spec.source.with", parameters))
    handed = forward_document(full, parse_pipeline(full).spec)
    assert handed["spec"]["source"]["with"] == parameters
    assert handed["spec"]["source"]["with"]["deep"] is not parameters["deep"]


def test_drivers_read_no_omitted_fields() -> None:
    names = [
        name for name, field in PipelineSpec.model_fields.items() if field.alias in OPERATORS_OWN
    ]
    assert len(names) == len(OPERATORS_OWN)
    supervisor = (
        RUNTIME / "cli" / "commands" / "runs" / "run.py"
    )  # reads `retry`, which a cluster's manifest lacks
    assert "spec.retry" in supervisor.read_text(encoding="utf-8")
    # Skip cluster commands, which people run, and which request these fields.
    commands = (RUNTIME / "cli" / "commands" / "cluster").rglob("*.py")
    for path in set(RUNTIME.rglob("*.py")) - {supervisor, *commands}:
        text = path.read_text(encoding="utf-8")
        assert not [name for name in names if f"spec.{name}" in text], path


def test_a_stored_document_is_recognized() -> None:
    full = place(SMALLEST)
    assert not is_stored(full)
    assert is_stored(forward_document(full, parse_pipeline(full).spec))


@pytest.mark.parametrize(
    "document", [None, [], {}, {"metadata": 1}, {"metadata": {"annotations": []}}]
)
def test_other_documents_do_not_count_as_stored(document: object) -> None:
    assert not is_stored(document)


@given(pipelines)
def test_law_a_rendered_document_is_equal_as_yaml_and_json(document: dict[str, Any]) -> None:
    spelled = render_document(document)
    assert json.loads(spelled) == document
    assert yaml.load(spelled, Loader=yaml.CSafeLoader) == json.loads(spelled)


@pytest.mark.parametrize(
    "text", ["\U0001f600", "\x7f", "\x85", "a\u2028b", "\ufeff", "\uffff", "\x00"]
)
def test_every_character_reaches_the_driver(text: str) -> None:
    document = with_change("spec.sink.with.path", text)
    assert yaml.safe_load(render_document(document)) == document


@pytest.mark.parametrize("number", [1e-7, 1e16, -2e-9, 1.5e-7, 0.5, 1e5, 7, -3])
def test_every_number_reaches_the_driver(number: float) -> None:
    document = with_change("spec.sink.with.share", [number, "1e-07", '"1e-07', "\\"])
    spelled = render_document(document)
    assert yaml.safe_load(spelled) == json.loads(spelled) == document


def test_ignored_fields_are_one_sentence() -> None:
    few, many = ("spec.a", "spec.b.c"), [f"spec.f{number}" for number in range(11)]
    assert describe_unknown("this operator", few) == (
        "this operator does not support, and ignores, spec.a, spec.b.c"
    )
    assert describe_unknown("it", many).endswith("spec.f7 and 3 more")
