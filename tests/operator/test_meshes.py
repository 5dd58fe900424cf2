"""A mesh adds no sidecar to the operator's pods unless their template requests one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from simulated_cluster import SimulatedCluster
from strandline.cli.cluster.job import CONTAINER, JobOrder, render_job
from strandline.cli.cluster.objects import read_cluster_pipeline
from strandline.cli.cluster.placement import JobPlacement
from strandline.cli.cluster.waiting import read_pod
from strandline_api.outcome.driver_outcome import DriverOutcome, format_outcome_line
from strandline_api.spec.namespace_defaults import RayDefaults, SpecDefaults
from strandline_api.spec.pod_paths import COMMAND_METADATA, HEAD_TEMPLATE
from strandline_api.status.preflight import PreflightVerdict
from strandline_operator.model.limits import Limits
from strandline_operator.model.plan import Resource

Json = dict[str, Any]
ISTIO, LINKERD = "sidecar.istio.io/inject", "linkerd.io/inject"
# Labels and annotations with which a template opts in. The mesh's opt-out must then be absent.
CHOICES: dict[str, tuple[str, str, str]] = {
    "istio's label": ("labels", ISTIO, "true"),
    "istio's annotation": ("annotations", ISTIO, "true"),
    "istio's revision": ("labels", "istio.io/rev", "canary"),
    "linkerd's annotation": ("annotations", LINKERD, "ingress"),
}
chosen = pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)


def make(template: Json | None = None, defaults: Json | None = None) -> SimulatedCluster:
    """Return a pipeline with a preflight check and the given pod templates."""
    given = SpecDefaults(ray=RayDefaults(pod_template=defaults or {}))
    cluster = SimulatedCluster(limits=Limits(preflight=True), defaults=given)
    cluster.edit(ray={"podTemplate": template or {}, "workerGroups": [{"name": "cpu"}]})
    cluster.settle()
    return cluster


def end_check(cluster: SimulatedCluster, code: int = 0, **status: Any) -> None:
    line = format_outcome_line(DriverOutcome(exit_code=code, message="no such stage"))
    ended = {"terminated": {"exitCode": code, "message": line if code else ""}}
    own = {"name": "strandline-preflight", "state": ended}
    body = {"phase": "Running", "containerStatuses": [own], **status}
    cluster.job_pods = [{"metadata": {"name": "corpus-preflight-x"}, "status": body}]
    cluster.advance(1)


def list_metadata(cluster: SimulatedCluster) -> Iterator[tuple[str, Json]]:
    """Yield each kind of the pipeline's pods with its labels and annotations."""
    (job,) = cluster.list_of(Resource.JOB)
    yield "check", job["spec"]["template"]["metadata"]
    end_check(cluster)
    cluster.bind_claim()
    cluster.settle()
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    spec = rayjob["spec"]["rayClusterSpec"]
    yield "head", spec["headGroupSpec"]["template"]["metadata"]
    yield "worker", spec["workerGroupSpecs"][0]["template"]["metadata"]
    yield "submitter", rayjob["spec"]["submitterPodTemplate"]["metadata"]
    (config,) = (
        body for body in cluster.list_of(Resource.CONFIG_MAP) if HEAD_TEMPLATE in body["data"]
    )
    yield "command", render_command(cluster, config["data"])


def render_command(cluster: SimulatedCluster, data: Json) -> Json:
    pipeline = read_cluster_pipeline({**cluster.pipeline, "status": {"attempt": 1}})
    placement = JobPlacement(node="", writes_ledger=False, writes_output=False)
    head, kept = json.loads(data[HEAD_TEMPLATE]), data.get(COMMAND_METADATA)
    more = {} if kept is None else {"metadata": json.loads(kept)}
    job = render_job(JobOrder("verify", ("strandline",), pipeline, head, placement, **more))
    metadata: Json = job["spec"]["template"]["metadata"]
    return metadata


def test_no_mesh_is_injected_by_default() -> None:
    found = dict(list_metadata(make()))
    assert set(found) == {"check", "head", "worker", "submitter", "command"}
    for kind, metadata in found.items():
        assert metadata["labels"][ISTIO] == "false", kind
        assert metadata["annotations"][LINKERD] == "disabled", kind


@chosen
@pytest.mark.parametrize("by", ["pipeline", "namespace"])
def test_a_template_can_enable_a_mesh(choice: tuple[str, str, str], by: str) -> None:
    """All pods join the mesh, so the check has the run's network. The other mesh stays disabled."""
    where, key, value = choice
    template = {"metadata": {where: {key: value}}}
    cluster = make(template) if by == "pipeline" else make(None, template)
    out = {"istio": ("labels", ISTIO, "false"), "linkerd": ("annotations", LINKERD, "disabled")}
    other = {out["linkerd" if "istio" in key else "istio"]}
    for kind, metadata in list_metadata(cluster):
        found = {
            (part, name, metadata.get(part, {}).get(name))
            for part in ("labels", "annotations")
            for name in (ISTIO, LINKERD, "istio.io/rev")
            if name in metadata.get(part, {})
        }
        assert found == other | {choice}, kind


def test_a_head_template_also_applies_to_check_and_command() -> None:
    cluster = make()
    template = {"metadata": {"labels": {ISTIO: "true"}}}
    cluster.edit(ray={"head": {"podTemplate": template}, "workerGroups": [{"name": "cpu"}]})
    cluster = make_again(cluster)
    labels = {kind: metadata["labels"][ISTIO] for kind, metadata in list_metadata(cluster)}
    true, false = ["true"] * 3, ["false"] * 2
    assert [labels[kind] for kind in ("check", "head", "command")] == true
    assert [labels[kind] for kind in ("worker", "submitter")] == false


def make_again(cluster: SimulatedCluster) -> SimulatedCluster:
    again = SimulatedCluster(limits=cluster.limits)
    again.edit(**cluster.spec)
    again.settle()
    return again


def test_a_command_on_an_older_config_map_has_no_mesh() -> None:
    cluster = make()
    dict(list_metadata(cluster))
    (config,) = (
        body for body in cluster.list_of(Resource.CONFIG_MAP) if HEAD_TEMPLATE in body["data"]
    )
    older = {name: text for name, text in config["data"].items() if name != COMMAND_METADATA}
    metadata = render_command(cluster, older)
    assert metadata["labels"][ISTIO] == "false"
    assert metadata["annotations"][LINKERD] == "disabled"


@pytest.mark.parametrize("metadata", [{"labels": None}, {"annotations": None}, {}])
def test_a_template_without_metadata_keeps_the_mesh_out(metadata: Any) -> None:
    for kind, found in list_metadata(make({"metadata": metadata})):
        assert found["labels"][ISTIO] == "false", kind


@pytest.mark.parametrize("code", [0, 64])
@pytest.mark.parametrize("end", [137, 143])
def test_a_native_sidecar_does_not_affect_the_check(code: int, end: int) -> None:
    """A native sidecar is an init container that ends after the check."""
    cluster = make()
    proxy = {"name": "istio-proxy", "state": {"terminated": {"exitCode": end, "reason": "Error"}}}
    phase = "Failed" if code else "Succeeded"
    end_check(cluster, code, phase=phase, initContainerStatuses=[proxy])
    assert cluster.status.preflight is not None
    expected = PreflightVerdict.FAILED if code else PreflightVerdict.PASSED
    assert cluster.status.preflight.verdict is expected


@pytest.mark.parametrize("code", [0, 1])
def test_a_command_ends_with_its_own_container(code: int) -> None:
    """The proxy runs until the Job is deleted."""
    proxy = {"name": "istio-proxy", "state": {"running": {}}}
    own = {"name": CONTAINER, "state": {"terminated": {"exitCode": code, "message": ""}}}
    status = {"phase": "Running", "containerStatuses": [proxy, own]}
    state = read_pod({"metadata": {"name": "corpus-verify-x"}, "status": status}, CONTAINER)
    assert (state.has_started, state.code) == (True, code)
