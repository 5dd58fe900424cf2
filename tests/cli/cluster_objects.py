"""Makes cluster objects as an operator leaves them, for tests of commands that read the objects."""

from __future__ import annotations

from typing import Any

from simulated_cluster import SimulatedCluster
from strandline.cli.cluster.objects import (
    ClusterPipeline,
    ListedAttempt,
    read_cluster_attempt,
    read_cluster_pipeline,
)
from strandline_api.spec.pod_paths import digest_config
from strandline_operator.model.plan import Resource

Json = dict[str, Any]


def make_config(**spec: Any) -> Json:
    """Return the operator's ConfigMap for the first attempt of a pipeline with these fields."""
    cluster = SimulatedCluster()
    cluster.share_claim("shared")
    cluster.edit(**spec)
    cluster.settle()
    (config,) = (
        body for body in cluster.list_of(Resource.CONFIG_MAP) if "pipeline.yaml" in body["data"]
    )
    return config


def make_pipeline_object(*, suspend: bool = False, **status: Any) -> Json:
    """Return a pipeline whose first attempt is the latest."""
    known = {
        "observedGeneration": 2,
        "attempt": 1,
        "phase": "Succeeded",
        "volumeClaim": "corpus-ledger",
    }
    return {
        "metadata": {
            "name": "corpus",
            "namespace": "team",
            "uid": "uid-p",
            "generation": 2,
            "annotations": {},
        },
        "spec": {"suspend": suspend},
        "status": known | status,
    }


def make_attempt_object(number: int = 1, *, config: Json | None = None, **status: Any) -> Json:
    """Return an attempt of the pipeline, with the ConfigMap of `make_config` or the given one."""
    digest = digest_config((make_config() if config is None else config)["data"])
    return {
        "metadata": {"name": f"corpus-{number}", "namespace": "team"},
        "spec": {"number": number, "run": "first", "trigger": "Run"},
        "status": (
            status or {"phase": "Succeeded", "isFrozen": True, "endTime": "2026-11-24T10:05:00Z"}
        )
        | {"config": {"name": f"corpus-{number}", "digest": digest}},
    }


def read_pipeline_object(**fields: Any) -> ClusterPipeline:
    return read_cluster_pipeline(make_pipeline_object(**fields))


def read_attempt_object(number: int = 1, **status: Any) -> ListedAttempt:
    return read_cluster_attempt(make_attempt_object(number, **status))


def make_pod(name: str, phase: str = "Running", *, claim: str = "", **labels: str) -> Json:
    """Return a pod of the pipeline's first attempt."""
    own = {"pipeline-uid": "uid-p", "attempt": "1"} | {
        key.replace("_", "-"): value for key, value in labels.items()
    }
    volumes = [{"name": "ledger", "persistentVolumeClaim": {"claimName": claim}}] if claim else []
    return {
        "metadata": {
            "name": name,
            "labels": {f"strandline.dev/{key}": value for key, value in own.items()},
        },
        "spec": {"nodeName": f"node-of-{name}", "volumes": volumes},
        "status": {"phase": phase},
    }


def end_pod(name: str, code: int = 0, message: str = "") -> Json:
    """Return a pod of a Job whose command has ended."""
    ended = {"exitCode": code, "message": message}
    return {
        "metadata": {"name": name},
        "status": {
            "phase": "Failed" if code else "Succeeded",
            "containerStatuses": [{"name": "strandline", "state": {"terminated": ended}}],
        },
    }
