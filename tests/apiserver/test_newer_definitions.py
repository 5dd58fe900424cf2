"""With CRDs of a later release, a real server adds defaults that the operator does not know."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest

from kube_client import KubeClient
from recordings import Json
from strandline_api.documents.documents import parse_pipeline
from strandline_api.documents.stored import forward_document
from strandline_api.schema.crd import pipeline_definition
from strandline_operator.reconcile.caches.own_kinds import read_spec
from waiting import wait_until

DEFINITION = pipeline_definition()
PLURAL, NAME = "CustomResourceDefinition", DEFINITION["metadata"]["name"]
PIPELINE: Json = {
    "apiVersion": "strandline.dev/v1alpha1",
    "kind": "CurationPipeline",
    "metadata": {"name": "corpus"},
    "spec": {"source": {"use": "files"}, "sink": {"use": "parquet"}},
}
LATER: Json = {
    "type": "object",
    "default": {},
    "properties": {"colour": {"type": "string", "default": "blue"}},
}
PLACES = ((), ("properties", "ray"), ("properties", "storage", "properties", "output"))


def grow() -> Json:
    """Return the CRD with new objects in several places of the spec."""
    grown = copy.deepcopy(DEFINITION)
    schema = grown["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for place in PLACES:
        node = schema["properties"]["spec"]
        for part in place:
            node = node[part]
        node["properties"]["later"] = copy.deepcopy(LATER)
        if place:
            node.setdefault("default", {})
    return grown


@pytest.fixture
def newer(client: KubeClient) -> Iterator[None]:
    """Install the CRDs of a later release during the test."""
    client.patch(PLURAL, NAME, {"spec": {"versions": grow()["spec"]["versions"]}})
    yield
    client.patch(PLURAL, NAME, {"spec": {"versions": DEFINITION["spec"]["versions"]}})


@pytest.mark.usefixtures("newer")
def test_fields_of_newer_definitions_are_read_and_passed_on_unchanged(
    client: KubeClient, namespace: str
) -> None:
    def create() -> Json:
        return client.create(PIPELINE, namespace, dryRun="All")

    wait_until(lambda: "later" in create()["spec"])  # a server needs some time to load CRDs
    stored = create()
    found = read_spec(stored)
    assert found.problems == ()
    assert set(found.unknown) == {"spec.later", "spec.ray.later", "spec.storage.output.later"}
    assert found.spec is not None
    assert found.spec.model_dump() == parse_pipeline(PIPELINE).spec.model_dump()
    assert forward_document(stored, found.spec)["spec"] == PIPELINE["spec"]
