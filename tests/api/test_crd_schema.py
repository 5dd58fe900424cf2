"""The CRD: structural, described throughout, with defaults that are valid, and up to date."""

import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from pydantic import BaseModel, Field

from pipeline_documents import SMALLEST, pipelines, with_change
from strandline_api import CurationPipeline, parse_pipeline
from strandline_api.definition import pipeline_definition
from strandline_api.schema import ALLOWED_KEYS, UnstructuralError, nodes, structural_schema
from structural_fit import fits

ROOT = Path(__file__).resolve().parents[2]
GENERATOR = ROOT / "crds" / "generate.py"
CRD = ROOT / "crds" / "strandline.dev_curationpipelines.yaml"

SCHEMA = pipeline_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
NODES = dict(nodes(SCHEMA))
INSIDE = {path: node for path, node in NODES.items() if path and not path.endswith(("[]", "{}"))}


@pytest.mark.parametrize("path", [path for path in INSIDE if path != "metadata"])
def test_every_field_is_described_in_a_sentence(path: str) -> None:
    description = INSIDE[path]["description"]
    assert description[0].isupper()
    assert description.endswith(".")


@pytest.mark.parametrize("path", list(NODES))
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
    if node.get("type") == "object" and "properties" not in node and path != "metadata":
        assert "additionalProperties" in node or node["x-kubernetes-preserve-unknown-fields"]


@pytest.mark.parametrize("path", [path for path, node in NODES.items() if "default" in node])
def test_every_default_is_valid(path: str) -> None:
    assert fits(NODES[path], NODES[path]["default"])


@pytest.mark.parametrize("path", [path for path in INSIDE if path.startswith("spec.retry")])
def test_retry_defaults_are_left_to_the_cluster(path: str) -> None:
    assert "default" not in INSIDE[path]


def test_a_null_wait_reaches_the_operator() -> None:
    nullable = [path for path, node in NODES.items() if node.get("nullable")]
    assert nullable == ["spec.retry.maxDelay"]


def test_a_claim_has_no_default_size_since_that_would_exclude_its_name() -> None:
    assert "default" not in INSIDE["spec.storage.ledger.size"]
    rules = NODES["spec.storage.ledger"]["x-kubernetes-validations"]
    assert [rule["rule"] for rule in rules] == [
        "!has(self.claimName) || (!has(self.size) && !has(self.storageClassName))"
    ]


def test_rules_name_fields_that_exist() -> None:
    for path, node in NODES.items():
        for rule in node.get("x-kubernetes-validations", []):
            used = {word.strip("()!") for word in rule["rule"].replace("has(", "").split()}
            names = {word.removeprefix("self.") for word in used if word.startswith("self.")}
            assert names, path
            assert names <= node["properties"].keys(), path


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(pipelines)
def test_what_the_model_takes_the_schema_takes(document: dict[str, Any]) -> None:
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
def test_what_the_model_refuses_the_schema_refuses(path: str, value: object) -> None:
    document = with_change(path, value)
    with pytest.raises(ValueError, match=r"spec\."):
        parse_pipeline(document)
    assert not fits(SCHEMA, document)


def test_the_smallest_pipeline_fits_the_schema() -> None:
    assert fits(SCHEMA, SMALLEST)


def test_the_definition_is_named_and_shown_as_published() -> None:
    definition = pipeline_definition()
    spec = definition["spec"]
    assert definition["metadata"]["name"] == "curationpipelines.strandline.dev"
    assert (spec["scope"], spec["names"]["shortNames"]) == ("Namespaced", ["cpipe"])
    assert spec["names"]["categories"] == ["curation"]
    version = spec["versions"][0]
    assert (version["name"], version["subresources"]) == ("v1alpha1", {"status": {}})
    assert SCHEMA["properties"]["metadata"] == {"type": "object"}
    paths = [column["jsonPath"] for column in version["additionalPrinterColumns"]]
    paths += [field["jsonPath"] for field in version["selectableFields"]]
    assert all(path.removeprefix(".") in NODES for path in paths if ".spec" in path)


def test_the_file_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(GENERATOR), "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert yaml.safe_load(CRD.read_text(encoding="utf-8")) == pipeline_definition()


def test_a_stale_file_is_told_and_made_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generator = runpy.run_path(str(GENERATOR))
    main = generator["main"]
    main.__globals__["FOLDER"] = tmp_path
    file = tmp_path / CRD.name
    assert main(["--check"]) == 1
    assert capsys.readouterr().err == f"{CRD.name} is out of date; run: python crds/generate.py\n"
    assert main([]) == 0
    assert file.read_text(encoding="utf-8") == CRD.read_text(encoding="utf-8")
    assert main(["--check"]) == 0
    file.write_text(file.read_text(encoding="utf-8") + "#\n", encoding="utf-8")
    assert main(["--check"]) == 1


def test_the_file_says_how_it_is_made_and_repeats_itself_in_full() -> None:
    text = CRD.read_text(encoding="utf-8")
    assert text.startswith("# Made by `python crds/generate.py`")
    assert "&id" not in text


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
        (Free, "Free.value: a free object must be marked as one"),
        (Untyped, "Untyped.value: no type"),
        (Pair, "Pair.value: a structural schema has no prefixItems"),
        (Ring, "contains itself"),
    ],
)
def test_what_has_no_structural_form_is_refused(model: type[BaseModel], sentence: str) -> None:
    with pytest.raises(UnstructuralError, match=sentence):
        structural_schema(model)


class Constant(BaseModel):
    value: int = Field(default=1, description="D.", json_schema_extra={"const": 1})
    share: float | None = Field(default=1.0, description="D.")


def test_constants_nulls_and_points_are_spelled_the_api_servers_way() -> None:
    assert structural_schema(Constant)["properties"] == {
        "value": {"default": 1, "description": "D.", "enum": [1], "type": "integer"},
        "share": {"default": 1, "description": "D.", "type": "number"},
    }


def containers(part: object) -> Iterator[int]:
    """The identity of each dictionary and list in a tree."""
    children = part.values() if isinstance(part, dict) else part if isinstance(part, list) else None
    if children is not None:
        yield id(part)
        for child in children:
            yield from containers(child)


def test_no_two_parts_of_a_schema_are_the_same_object() -> None:
    schema = structural_schema(CurationPipeline)
    identities = list(containers(schema))
    assert len(identities) > len(NODES)
    assert len(identities) == len(set(identities))
