"""The CRDs' schemas are structural, fully described, and bounded, and their defaults are valid."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from pydantic import BaseModel, Field

from pipeline_documents import SMALLEST, pipelines, with_change
from strandline_api.documents.documents import parse_pipeline
from strandline_api.objects.attempt import CurationAttempt
from strandline_api.objects.pipeline import CurationPipeline
from strandline_api.schema.crd import attempt_definition, pipeline_definition
from strandline_api.schema.openapi import ALLOWED_KEYS, UnstructuralError, nodes, structural_schema
from strandline_api.status.pipeline_status import parse_status
from structural_fit import fits

SCHEMAS = {
    definition["spec"]["names"]["shortNames"][0]: definition["spec"]["versions"][0]["schema"][
        "openAPIV3Schema"
    ]
    for definition in (pipeline_definition(), attempt_definition())
}
SCHEMA = SCHEMAS["cpipe"]
NODES = {f"{kind}.{path}": node for kind, schema in SCHEMAS.items() for path, node in nodes(schema)}
# Path of the only default in a status, for tools that read the object before the operator's first
# pass.
UNSEEN_AT = "cpipe.status"
DEFAULTED = [path for path, node in NODES.items() if "default" in node and path != UNSEEN_AT]
INSIDE = {
    path: node for path, node in NODES.items() if not path.endswith((".", "[]", "{}", ".metadata"))
}
# Parts without bounds: the API server validates them, or another project defines them.
UNBOUNDED = re.compile(
    r"(cpipe|catt)\.(apiVersion|kind|metadata|)|.+\.(with|runtimeEnv|podTemplate)"
)


@pytest.mark.parametrize("path", INSIDE)
def test_every_field_is_described_in_a_sentence(path: str) -> None:
    description = INSIDE[path]["description"]
    assert description[0].isupper()
    assert description.endswith(".")


@pytest.mark.parametrize("path", NODES)
def test_every_node_is_structural(path: str) -> None:
    node = NODES[path]
    assert node.keys() <= ALLOWED_KEYS
    assert ("type" in node) != ("x-kubernetes-int-or-string" in node)
    assert not ("properties" in node and "additionalProperties" in node)
    if node.get("type") == "array":
        assert "items" in node
    if "anyOf" in node:
        assert node["anyOf"] == [{"type": "integer"}, {"type": "string"}]
    if node.get("x-kubernetes-list-type") == "map":
        keys = node["x-kubernetes-list-map-keys"]
        assert set(keys) <= set(node["items"]["required"])
    if node.get("type") == "object" and "properties" not in node and "metadata" not in path:
        assert "additionalProperties" in node or node["x-kubernetes-preserve-unknown-fields"]


@pytest.mark.parametrize("path", [path for path in NODES if not UNBOUNDED.fullmatch(path)])
def test_every_text_list_and_map_is_bounded(path: str) -> None:
    node = NODES[path]
    if node.get("type") == "array":
        assert node["maxItems"] <= 256
    if "additionalProperties" in node:
        assert node["maxProperties"] <= 65
    if "x-kubernetes-int-or-string" in node or (node["type"] == "string" and "enum" not in node):
        assert node["maxLength"] <= 2048


def test_unbounded_parts_belong_to_others() -> None:
    free = {path for path in NODES if UNBOUNDED.fullmatch(path)}
    assert len(free) == 2 * 4 + 2 * 3 + 3
    for path in free - {path for path in free if path.startswith("catt")}:
        node = NODES[path]
        assert path.count(".") == 1 or node["x-kubernetes-preserve-unknown-fields"], path


@pytest.mark.parametrize("path", DEFAULTED)
def test_every_default_is_valid_and_described(path: str) -> None:
    default = NODES[path]["default"]
    assert fits(NODES[path], default)
    if default not in ({}, []):
        shown = str(default).lower() if isinstance(default, bool) else default
        assert NODES[path]["description"].endswith(f"Defaults to {shown}.")


@pytest.mark.parametrize(
    "path",
    [path for path in INSIDE if re.match(r"cpipe\.spec\.retry|.*\[\]|.*\.status|catt\.", path)],
)
def test_fields_with_namespace_defaults_have_no_schema_default(
    path: str,
) -> None:
    assert ("default" in INSIDE[path]) == (path == UNSEEN_AT)


def test_a_new_pipeline_differs_from_an_observed_pipeline() -> None:
    assert NODES[UNSEEN_AT]["default"] == {"observedGeneration": -1}
    assert not parse_status(NODES[UNSEEN_AT]["default"]).is_seen
    assert parse_status({"observedGeneration": 1}).is_seen


@pytest.mark.parametrize(
    "path",
    ["cpipe.spec.stages[].batchSize", "cpipe.spec.ray.workerGroups[].minReplicas"],
)
def test_a_default_inside_a_list_is_described(path: str) -> None:
    assert INSIDE[path]["description"].endswith("Defaults to 1.")


def test_defaults_apply_to_missing_objects() -> None:
    hollow = {path for path, node in NODES.items() if node.get("default") == {}}
    for path in DEFAULTED:
        parent = path.rpartition(".")[0]
        assert parent in hollow | {"cpipe.spec", "cpipe.spec.source", "cpipe.spec.sink"}, path
    assert "cpipe.spec.ray.head.resources" in hollow


def test_a_null_wait_reaches_the_operator() -> None:
    nullable = [path for path, node in NODES.items() if node.get("nullable")]
    assert nullable == ["cpipe.spec.retry.maxDelay"]


def test_a_claim_has_no_default_size_because_size_excludes_name() -> None:
    assert "default" not in INSIDE["cpipe.spec.storage.ledger.size"]


def test_status_strings_are_open_for_newer_operators() -> None:
    closed = [path for path, node in NODES.items() if "status" in path and "enum" in node]
    assert closed == ["cpipe.status.conditions[].status", "catt.status.conditions[].status"]


def test_rules_name_existing_fields() -> None:
    for path, node in NODES.items():
        for rule in node.get("x-kubernetes-validations", []):
            names = set(re.findall(r"\bself\.([a-zA-Z]+)", rule["rule"]))
            assert names <= node["properties"].keys(), path
            assert names or rule["rule"] == "self == oldSelf", path


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(pipelines)
def test_the_schema_accepts_documents_of_the_model(document: dict[str, Any]) -> None:
    parse_pipeline(document)
    assert fits(SCHEMA, document)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.source.use", "Read Files"),
        ("spec.source.name", "Big Name"),
        ("spec.stages.0.batchSize", 0),
        ("spec.stages.0.batchSize", "4"),
        ("spec.source.workers", 4),
        ("spec.source.resources.memory", "2GB"),
        ("spec.source.resources.cpu", "500m"),
        ("spec.retry.delay", "5 min"),
        ("spec.retry.delay", 0.5),
        ("spec.retry.jitterRatio", 2),
        ("spec.retry.eligibleCauses", ["UserCancelled"]),
        ("spec.quarantine.tolerate", "101%"),
        ("spec.onChange", "restart"),
        ("spec.runId", 2),
        ("spec.stages", [{"use": "a"}] * 257),
        ("spec.stagess", []),
        ("spec.suspend", "yes"),
        ("spec.ray.workerGroups", [{"minReplicas": 1}]),
    ],
)
def test_the_schema_rejects_documents_rejected_by_the_model(path: str, value: object) -> None:
    document = with_change(path, value)
    with pytest.raises(ValueError, match=r"spec\."):
        parse_pipeline(document)
    assert not fits(SCHEMA, document)


def test_the_smallest_pipeline_fits_the_schema() -> None:
    assert fits(SCHEMA, SMALLEST)


class TwoTypes(BaseModel):
    value: int | str = Field(description="D.")


class Exclusive(BaseModel):
    value: int = Field(gt=0, description="D.")


class Free(BaseModel):
    value: dict[str, Any] = Field(description="D.")


class Untyped(BaseModel):
    value: Any = Field(description="D.")


class Pair(BaseModel):
    value: tuple[int, str] = Field(description="D.")


class Ring(BaseModel):
    inner: "Ring | None" = Field(default=None, description="D.")


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (TwoTypes, "TwoTypes.value: a union of 2 types"),
        (Exclusive, "Exclusive.value: a structural schema has no exclusiveMinimum"),
        (Free, "Free.value: a free-form object must be marked as such"),
        (Untyped, "Untyped.value: no type"),
        (Pair, "Pair.value: a structural schema has no prefixItems"),
        (Ring, "contains itself"),
    ],
)
def test_a_model_without_a_structural_form_is_rejected(
    model: type[BaseModel], sentence: str
) -> None:
    with pytest.raises(UnstructuralError, match=sentence):
        structural_schema(model)


class Constant(BaseModel):
    value: int = Field(default=1, description="D.", json_schema_extra={"const": 1})
    share: float | None = Field(default=1.0, description="D.")


def test_constants_nulls_and_floats_are_in_the_api_servers_form() -> None:
    assert structural_schema(Constant)["properties"] == {
        "value": {"default": 1, "description": "D.", "enum": [1], "type": "integer"},
        "share": {"default": 1, "description": "D.", "type": "number"},
    }


def containers(part: object) -> Iterator[int]:
    """Yield the identity of each dictionary and list in a tree."""
    children = part.values() if isinstance(part, dict) else part if isinstance(part, list) else None
    if children is not None:
        yield id(part)
        for child in children:
            yield from containers(child)


def test_parts_of_a_schema_are_distinct_objects() -> None:
    schemas = [structural_schema(CurationPipeline), structural_schema(CurationAttempt)]
    identities = list(containers(schemas))
    assert len(identities) > len(NODES)
    assert len(identities) == len(set(identities))
