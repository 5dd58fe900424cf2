"""The GitOps page: its table, its manifests, and its statements about times."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
import yaml

from gitops_states import STATES, end_first
from reading_law import read_sights
from readings import ROOT, Reader, Reading
from recordings import list_recordings
from simulated_cluster import SimulatedCluster
from strandline_api.documents.documents import parse_pipeline
from strandline_api.names import MANAGED_BY_LABEL
from strandline_operator.model.plan import Resource

Body = dict[str, Any]

PAGE = (ROOT / "docs" / "gitops.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (.+?) \| (\w+) \| (\w+) \| (\w+) \|$", re.MULTILINE)
TABLE = {state: readings for state, *readings in ROW.findall(PAGE)}
MANIFESTS: list[Body] = [
    document
    for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    for document in yaml.safe_load_all(block)
]


def find_manifest(kind: str, name: str = "corpus") -> Body:
    (found,) = [
        manifest
        for manifest in MANIFESTS
        if (manifest["kind"], manifest["metadata"]["name"]) == (kind, name)
    ]
    return found


@pytest.fixture(scope="module")
def bodies() -> dict[str, Body]:
    """Return the pipeline in every state, by the table's names."""
    return {state: make() for state, make in STATES.items()}


@pytest.fixture(scope="module")
def readings(reader: Reader, bodies: dict[str, Body]) -> dict[str, Reading]:
    """Return the readings of these pipelines."""
    return reader.read(bodies)


@pytest.fixture(scope="module")
def patient_readings(reader: Reader, bodies: dict[str, Body]) -> dict[str, Reading]:
    """Return Flux's readings with the page's expressions, which wait for the run's end."""
    spec = find_manifest("Kustomization", "corpus-finished")["spec"]
    ((_, _, *expressions),) = [expr.items() for expr in spec["healthCheckExprs"]]
    return reader.read(bodies, dict(expressions))


def test_the_table_has_every_state() -> None:
    assert list(TABLE) == list(STATES)


@pytest.mark.parametrize("state", STATES)
def test_each_state_is_read_as_in_the_table(
    readings: dict[str, Reading], patient_readings: dict[str, Reading], state: str
) -> None:
    reading, patient = readings[state], patient_readings[state]
    assert [reading.flux, patient.flux, reading.argo] == TABLE[state]


def test_the_pipeline_is_valid_and_applied_after_its_definition() -> None:
    pipeline = find_manifest("CurationPipeline")
    assert parse_pipeline(pipeline).spec.run_id == "2026-11"
    annotations = pipeline["metadata"]["annotations"]
    assert int(annotations["argocd.argoproj.io/sync-wave"]) > 0
    assert annotations["argocd.argoproj.io/sync-options"] == "SkipDryRunOnMissingResource=true"


def test_the_application_has_its_required_fields() -> None:
    spec = find_manifest("Application")["spec"]
    assert {"project", "source", "destination"} <= set(spec)
    assert {"repoURL", "targetRevision", "path"} == set(spec["source"])
    assert {"name", "namespace"} == set(spec["destination"])
    # The page states that an Application needs neither.
    assert not {"ignoreDifferences", "syncOptions"} & {*spec, *spec["syncPolicy"]}


@pytest.mark.parametrize("name", ["corpus", "corpus-finished"])
def test_a_kustomization_has_its_required_fields(name: str) -> None:
    spec = find_manifest("Kustomization", name)["spec"]
    assert {"sourceRef", "path", "prune", "interval"} <= set(spec)
    assert {"kind", "name"} == set(spec["sourceRef"])
    assert spec["wait"] is True
    for check in spec.get("healthCheckExprs", []):
        pipeline = find_manifest("CurationPipeline")
        assert list(check) == ["apiVersion", "kind", "failed", "current"]
        assert (check["apiVersion"], check["kind"]) == (pipeline["apiVersion"], pipeline["kind"])


def test_every_manifest_is_tested_and_every_file_exists() -> None:
    assert {manifest["kind"] for manifest in MANIFESTS} == {
        "CurationPipeline",
        "Application",
        "Kustomization",
    }
    files = re.findall(r"(?:--patch-file|-f) (\S+)", PAGE)
    assert files
    assert all((ROOT / name).is_file() for name in files)


def test_a_spec_is_never_written() -> None:
    """Check the generation, which the store increments with each edit: no field must be ignored."""
    for scenario in list_recordings():
        assert {sight.body["metadata"]["generation"] for sight in read_sights(scenario)} == {1}


def test_the_attempt_continues_after_a_replacement_of_the_pipeline() -> None:
    cluster = SimulatedCluster.running()
    cluster.annotate("retry", "once")
    cluster.settle()
    cluster.pipeline["metadata"] |= {"finalizers": [], "annotations": {}}
    cluster.settle()
    assert cluster.pipeline["metadata"]["finalizers"]
    ((_, status),) = cluster.attempts.values()
    assert status.end_time is None


def test_the_same_file_again_starts_nothing() -> None:
    cluster = end_first(0)
    cluster.edit(**copy.deepcopy(cluster.spec))
    cluster.advance(100_000)
    assert len(cluster.attempts) == 1


def test_a_restore_without_status_makes_one_attempt() -> None:
    cluster = SimulatedCluster(pipeline=end_first(0).pipeline)
    cluster.settle()
    cluster.advance(100_000)
    assert len(cluster.attempts) == 1


def test_created_objects_have_no_labels_of_the_user() -> None:
    cluster = SimulatedCluster()
    mine = {"app.kubernetes.io/instance": "corpus", "argocd.argoproj.io/tracking-id": "corpus:x"}
    cluster.pipeline["metadata"] |= {"labels": dict(mine), "annotations": dict(mine)}
    cluster.settle()
    made = [body for body, _ in cluster.attempts.values()]
    made += [one for kind in (Resource.RAYJOB, Resource.CLAIM) for one in cluster.list_of(kind)]
    assert len(made) == 3
    for body in made:
        metadata = body["metadata"]
        assert metadata["labels"][MANAGED_BY_LABEL] == "strandline"
        assert not set(mine) & {*metadata["labels"], *metadata.get("annotations", {})}
