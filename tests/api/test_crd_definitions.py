"""The CRDs have names, columns, selectors, and rules, which the API server shows and enforces.

Other tests submit the CRDs to a real API server.
"""

import re
from typing import Any

import pytest

from strandline_api.objects.attempt import AttemptStatus
from strandline_api.schema.crd import attempt_definition, pipeline_definition
from strandline_api.schema.openapi import nodes
from strandline_api.status.pipeline_status import PipelineStatus

PIPELINE, ATTEMPT = pipeline_definition(), attempt_definition()
BOTH = pytest.mark.parametrize("definition", [PIPELINE, ATTEMPT], ids=["cpipe", "catt"])
COLUMN_TYPES = {"string": ("string",), "integer": ("integer",), "date": ("string",)}


def version_of(definition: dict[str, Any]) -> dict[str, Any]:
    (version,) = definition["spec"]["versions"]
    return dict(version)


def nodes_of(definition: dict[str, Any]) -> dict[str, Any]:
    return dict(nodes(version_of(definition)["schema"]["openAPIV3Schema"]))


def column_names(definition: dict[str, Any], *, wide: bool) -> list[str]:
    columns = version_of(definition)["additionalPrinterColumns"]
    return [column["name"] for column in columns if column.get("priority", 0) == wide]


def rules_of(definition: dict[str, Any], path: str) -> list[str]:
    return [rule["rule"] for rule in nodes_of(definition)[path]["x-kubernetes-validations"]]


@pytest.mark.parametrize(
    ("definition", "plural", "short"),
    [(PIPELINE, "curationpipelines", "cpipe"), (ATTEMPT, "curationattempts", "catt")],
)
def test_a_kind_is_named_as_published(definition: dict[str, Any], plural: str, short: str) -> None:
    spec, version = definition["spec"], version_of(definition)
    assert definition["metadata"] == {"name": f"{plural}.strandline.dev"}
    assert (spec["group"], spec["scope"], spec["names"]["plural"]) == (
        "strandline.dev",
        "Namespaced",
        plural,
    )
    assert (spec["names"]["shortNames"], spec["names"]["categories"]) == ([short], ["curation"])
    assert (version["name"], version["subresources"]) == ("v1alpha1", {"status": {}})
    assert version["served"]
    assert version["storage"]


@BOTH
def test_a_spec_is_required_and_a_status_is_optional(definition: dict[str, Any]) -> None:
    root = nodes_of(definition)[""]
    assert root["required"] == ["spec"]
    assert root["properties"]["metadata"] == {"type": "object"}
    assert "required" not in root["properties"]["status"]


def test_a_list_of_pipelines_shows_their_progress() -> None:
    assert column_names(PIPELINE, wide=False) == [
        *("Phase", "Attempt", "Progress", "Next", "State", "Age")
    ]
    assert column_names(PIPELINE, wide=True) == [
        *("Cause", "Run", "Claim", "Failed", "Quarantined", "Retries", "Redone", "Details")
    ]


def test_a_list_of_attempts_shows_their_ends() -> None:
    assert column_names(ATTEMPT, wide=False) == [
        *("Pipeline", "Number", "Phase", "Cause", "Finished", "Started", "Age")
    ]
    assert column_names(ATTEMPT, wide=True) == [
        *("RayJob", "Exit", "Trigger", "Previous", "Message")
    ]


@BOTH
def test_columns_show_existing_fields_with_their_type(definition: dict[str, Any]) -> None:
    known = nodes_of(definition)
    for column in version_of(definition)["additionalPrinterColumns"]:
        assert column["description"].endswith(".")
        path = column["jsonPath"].removeprefix(".")
        if path != "metadata.creationTimestamp":
            assert known[path]["type"] in COLUMN_TYPES[column["type"]], column
        assert column.get("priority") != 0  # the API server drops a priority of 0


def test_a_future_time_is_no_date_column() -> None:
    columns = {c["name"]: c["type"] for c in version_of(PIPELINE)["additionalPrinterColumns"]}
    assert (columns["Next"], columns["Age"]) == ("string", "date")


@BOTH
def test_selectable_fields_are_scalars_of_spec_or_status(definition: dict[str, Any]) -> None:
    fields = [field["jsonPath"] for field in version_of(definition)["selectableFields"]]
    assert 0 < len(fields) <= 8
    for path in fields:
        assert re.match(r"\.(spec|status)\.", path)
        assert nodes_of(definition)[path.removeprefix(".")]["type"] in {
            *("string", "integer", "boolean")
        }


def test_attempts_are_selected_by_pipeline_number_and_cause() -> None:
    fields = {field["jsonPath"] for field in version_of(ATTEMPT)["selectableFields"]}
    assert {".spec.pipeline", ".spec.number", ".status.cause"} <= fields


def test_an_attempt_is_immutable_and_numbered() -> None:
    assert "self == oldSelf" in rules_of(ATTEMPT, "spec")
    assert "!has(self.previous) || self.previous < self.number" in rules_of(ATTEMPT, "spec")
    (named,) = rules_of(ATTEMPT, "")
    assert "self.metadata.name" in named
    assert "self.spec.number" in named


def test_the_ledger_of_a_pipeline_is_immutable() -> None:
    assert rules_of(PIPELINE, "spec.storage.ledger") == [
        "!has(self.claimName) || (!has(self.size) && !has(self.storageClassName))",
        " && ".join(
            f"has({new}) == has({old}) && (!has({new}) || {new} == {old})"
            for new, old in (
                (f"self.{name}", f"oldSelf.{name}")
                for name in ("claimName", "storageClassName", "accessMode")
            )
        ),
    ]
    # If a user removes the field from the manifest, the default applies, so the rule always has a
    # value to compare.
    assert nodes_of(PIPELINE)["spec.storage"]["default"] == {}
    assert nodes_of(PIPELINE)["spec.storage.ledger"]["default"] == {}
    assert not any(
        "oldSelf" in str(node.get("x-kubernetes-validations"))
        for node in [nodes_of(PIPELINE)[""], nodes_of(PIPELINE)["spec"]]
    )


def test_mutually_exclusive_fields_are_rejected() -> None:
    assert rules_of(PIPELINE, "spec.storage.output") == ["!has(self.url) || !has(self.claimName)"]
    assert rules_of(PIPELINE, "spec.stages[].workers") == [
        "!has(self.min) || !has(self.max) || self.max >= self.min"
    ]
    assert rules_of(PIPELINE, "spec.ray.workerGroups[]") == [
        "!has(self.maxReplicas) || self.maxReplicas >= (has(self.minReplicas) ? "
        "self.minReplicas : 1)",
        "self.name != 'head'",
    ]


@BOTH
def test_each_rule_has_a_message_with_advice(definition: dict[str, Any]) -> None:
    for node in nodes_of(definition).values():
        for rule in node.get("x-kubernetes-validations", []):
            assert rule.keys() == {"rule", "message"}
            assert len(rule["message"]) > 20


def test_lists_of_conditions_are_maps_by_type_as_gitops_tools_expect() -> None:
    for definition in (PIPELINE, ATTEMPT):
        conditions = nodes_of(definition)["status.conditions"]
        assert conditions["x-kubernetes-list-map-keys"] == ["type"]
        assert conditions["items"]["required"] == [
            *("lastTransitionTime", "message", "reason", "status", "type")
        ]
    assert nodes_of(PIPELINE)["status.attempts"]["x-kubernetes-list-map-keys"] == ["number"]


def test_the_schema_has_exactly_the_models_fields() -> None:
    for definition, model in ((PIPELINE, PipelineStatus), (ATTEMPT, AttemptStatus)):
        wanted = {str(field.alias) for field in model.model_fields.values()}
        assert nodes_of(definition)["status"]["properties"].keys() == wanted
