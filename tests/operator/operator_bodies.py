"""Objects of a pipeline `corpus` in a namespace `team`, for tests of the operator."""

from __future__ import annotations

from typing import Any

from fake_store import FakeStore
from kuberay_standin.objects import refer
from strandline_api.names import (
    ATTEMPT_LABEL,
    MANAGED_BY_LABEL,
    MANAGER,
    PIPELINE_LABEL,
    PIPELINE_UID_LABEL,
    ROLE_LABEL,
)
from strandline_api.objects.attempt import AttemptSpec
from strandline_operator.model.plan import Resource
from strandline_operator.reconcile.scheduling.schedule import Key

Body = dict[str, Any]
NAMESPACE = "team"
KEY = Key(NAMESPACE, "corpus")
RAY = "ray.io/v1"


def make_pipeline(store: FakeStore, name: str = "corpus", **spec: Any) -> Body:
    """Create a pipeline in the store, as a user applies it."""
    body = {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": name},
        "spec": {"source": {"use": "files"}, "sink": {"use": "jsonl"}, **spec},
    }
    return store.create(Resource.PIPELINE, NAMESPACE, body)


def spell_labels(pipeline: Body, number: int | None = None, role: str = "") -> dict[str, str]:
    """Return the labels of an object that belongs to a pipeline."""
    labels = {
        PIPELINE_UID_LABEL: pipeline["metadata"]["uid"],
        PIPELINE_LABEL: pipeline["metadata"]["name"],
        MANAGED_BY_LABEL: MANAGER,
    }
    labels |= {ATTEMPT_LABEL: str(number)} if number is not None else {}
    return labels | ({ROLE_LABEL: role} if role else {})


def spell_attempt(pipeline: Body, number: int = 1) -> Body:
    """Return the manifest of an attempt."""
    metadata = pipeline["metadata"]
    spec = AttemptSpec(
        pipeline=metadata["name"], pipeline_uid=metadata["uid"], run="first", number=number
    )
    return {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationAttempt",
        "metadata": {
            "name": f"{metadata['name']}-{number}",
            "labels": spell_labels(pipeline, number),
            "ownerReferences": [refer(pipeline)],
        },
        "spec": spec.to_json(),
    }


def make_attempt(store: FakeStore, pipeline: Body, number: int = 1) -> Body:
    """Create an attempt in the store."""
    return store.create(Resource.ATTEMPT, NAMESPACE, spell_attempt(pipeline, number))


def make_rayjob(
    store: FakeStore, pipeline: Body, attempt: Body, status: Body | None = None
) -> Body:
    """Create the RayJob of an attempt in the store."""
    number = attempt["spec"]["number"]
    metadata = {
        "name": attempt["metadata"]["name"],
        "labels": spell_labels(pipeline, number),
        "ownerReferences": [refer(attempt)],
    }
    body = {"apiVersion": RAY, "kind": "RayJob", "metadata": metadata, "spec": {}}
    made = store.create(Resource.RAYJOB, NAMESPACE, body)
    if status:
        store.put_status(Resource.RAYJOB, NAMESPACE, metadata["name"], status)
    return made


def make_pod(
    store: FakeStore, pipeline: Body, name: str, role: str, *, number: int = 1, ip: str = ""
) -> Body:
    """Create a running pod of an attempt in the store."""
    containers = {"head": "ray-head", "worker": "ray-worker", "submitter": "ray-job-submitter"}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": spell_labels(pipeline, number, role)},
        "spec": {"nodeName": "node-1"},
        "status": {
            "phase": "Running",
            "podIP": ip,
            "containerStatuses": [{"name": containers[role], "state": {"running": {}}}],
        },
    }
    return store.create(Resource.POD, NAMESPACE, body)


def oom(container: str, code: int = 137) -> dict[str, Any]:
    """Return the status of a container that was killed for memory."""
    return {
        "name": container,
        "state": {"terminated": {"reason": "OOMKilled", "exitCode": code}},
    }
