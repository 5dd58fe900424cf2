"""Renders the scenarios' pipelines: small clusters, short deadlines, stages from a ConfigMap.

This module must not depend on the disturbances of the scenarios.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from proving_ground.cluster.kube import Json

STAGES = Path(__file__).parents[1] / "scenarios" / "stages" / "tide.py"
STAGES_MAP = "tide"
OUTPUT = "/var/lib/strandline-output"
HOLD = "hold"  # file that blocks the stage `tide:Work`
OPENED = f"{OUTPUT}/opened.log"
HEAD_MEMORY, WORKER_MEMORY = "1536Mi", "1Gi"
# Disable Ray's memory monitor, which usually kills a process before the kernel does.
KERNEL_ONLY = {"RAY_memory_monitor_refresh_ms": "0"}
# Tolerations of a lost node in seconds. If they are missing, the admission controller sets five
# minutes.
LOSS_SECONDS = 10


def render_stages() -> Json:
    """Render the ConfigMap with the stages."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": STAGES_MAP},
        "data": {path.name: path.read_text(encoding="utf-8") for path in _list_brought()},
    }


def _list_brought() -> list[Path]:
    return sorted(STAGES.parent.glob("*.py"))


def render_pipeline(
    name: str,
    *,
    ledger: str,
    output: str,
    count: int = 40,
    stages: Sequence[Mapping[str, Any]] = (),
    env: Mapping[str, str] = MappingProxyType({}),
    spec: Mapping[str, Any] | None = None,
) -> Json:
    """Render a pipeline over `count` numbered sources.

    Args:
        ledger, output: claims for ledger and output.
        stages: stages between the stage that opens a source and the sink.
        env: environment variables of all Ray containers.
        spec: fields that override the spec.
    """
    ray: Json = {
        "head": _node(HEAD_MEMORY, "0", env),
        "workerGroups": [{"name": "small", "minReplicas": 1, **_node(WORKER_MEMORY, "1", env)}],
        "podTemplate": {"spec": {"tolerations": _tolerate_briefly()}},
    }
    body: Json = {
        "source": {"use": "tide:Numbers", "with": {"count": count}},
        "stages": [{"use": "tide:Open", "with": {"log": OPENED}}, *map(dict, stages)],
        "sink": {"use": "tide:Text"},
        "storage": {"ledger": {"claimName": ledger}, "output": {"claimName": output}},
        "checkpoint": {"interval": "5s", "gracePeriod": "15s"},
        "retry": {"delay": "2s", "jitter": "none"},
        "deadlines": {"preRunning": "300s", "attempt": "600s"},
        "ray": ray,
    }
    body |= dict(spec or {})
    return {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": name},
        "spec": body,
    }


def write_elsewhere(manifest: Json, url: str, secret: str, claim: str) -> None:
    """Change a pipeline to write to an object store. Its log of opened sources stays on a claim.

    Args:
        secret: Secret with the keys of the store.
        claim: a claim that all pods mount.
    """
    spec = manifest["spec"]
    spec["storage"]["output"] = {"url": url}
    spec["ray"]["envFrom"] = [{"secretRef": {"name": secret}}]
    for node in (spec["ray"]["head"], *spec["ray"]["workerGroups"]):
        pod = node["podTemplate"]["spec"]
        pod["containers"][0]["volumeMounts"].append({"name": "opened", "mountPath": OUTPUT})
        volume = {"name": "opened", "persistentVolumeClaim": {"claimName": claim}}
        pod["volumes"].append(volume)


def _node(memory: str, cpus: str, env: Mapping[str, str]) -> Json:
    # Request little CPU from Kubernetes, so that several clusters fit a small node. Ray's own
    # number of CPUs is higher.
    container = "ray-head" if cpus == "0" else "ray-worker"
    return {
        "resources": {"cpu": 0.1, "memory": memory},
        "rayStartParams": {"num-cpus": cpus},
        "podTemplate": {"spec": _bring_stages(container, env)},
    }


def _bring_stages(container: str, env: Mapping[str, str]) -> Json:
    # Replace the default CPU limit, which only serves fairness. With that limit, Ray takes minutes
    # to start.
    variables = {"PYTHONPATH": "/opt/stages", **env}
    return {
        "containers": [
            {
                "name": container,
                "env": [{"name": name, "value": value} for name, value in variables.items()],
                "volumeMounts": [{"name": STAGES_MAP, "mountPath": "/opt/stages"}],
                "resources": {"limits": {"cpu": "2"}},
            }
        ],
        "volumes": [{"name": STAGES_MAP, "configMap": {"name": STAGES_MAP}}],
    }


def _tolerate_briefly() -> list[Json]:
    return [
        {
            "key": f"node.kubernetes.io/{state}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": LOSS_SECONDS,
        }
        for state in ("not-ready", "unreachable")
    ]
