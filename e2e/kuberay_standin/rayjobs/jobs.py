"""Builds a RayJob's objects: its RayCluster, and the Job that submits its driver.

The Job's labels, limits, and shell are as recorded. The recordings truncate the script, so the
script is the stand-in's own. This module does no I/O.
"""

from __future__ import annotations

import copy
import shlex
from typing import Any

from kuberay_standin.objects import GROUP, MADE_BY, Json, get_name, refer
from kuberay_standin.rayclusters.pods import find_ports, format_host
from kuberay_standin.rayclusters.tokens import TOKEN, give_token

SUBMITTER = "ray-job-submitter"
USUAL_RETRIES = 2


def format_dashboard(cluster: Json) -> str:
    """Return the address of a RayCluster's dashboard, `host:port`, with its DNS name."""
    return f"{format_host(cluster)}:{find_ports(cluster)['dashboard']}"


def make_cluster(rayjob: Json) -> Json:
    """Return the RayCluster of a RayJob. The RayJob's status contains its name."""
    given = rayjob["metadata"].get("labels") or {}
    labels = {**given, **_label(rayjob), "ray.io/job-submission-mode": "K8sJobMode"}
    return {
        "apiVersion": GROUP,
        "kind": "RayCluster",
        "metadata": {
            "name": rayjob["status"]["rayClusterName"],
            "namespace": rayjob["metadata"]["namespace"],
            "labels": labels,
            "annotations": dict(rayjob["metadata"].get("annotations") or {}),
            "ownerReferences": [refer(rayjob)],
        },
        "spec": copy.deepcopy(rayjob["spec"]["rayClusterSpec"]),
    }


def make_job(rayjob: Json, cluster: Json) -> Json:
    """Return the submitter's Job, which has the RayJob's name."""
    labels = {**MADE_BY, **_label(rayjob)}
    config = rayjob["spec"].get("submitterConfig") or {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": get_name(rayjob),
            "namespace": rayjob["metadata"]["namespace"],
            "labels": labels,
            "ownerReferences": [refer(rayjob)],
        },
        "spec": {
            "backoffLimit": config.get("backoffLimit", USUAL_RETRIES),
            "template": _make_template(rayjob, cluster, labels),
        },
    }


def _label(rayjob: Json) -> dict[str, str]:
    return {
        "ray.io/originated-from-cr-name": get_name(rayjob),
        "ray.io/originated-from-crd": "RayJob",
    }


def _make_template(rayjob: Json, cluster: Json, labels: dict[str, str]) -> Json:
    given = rayjob["spec"].get("submitterPodTemplate")
    template: Json = copy.deepcopy(given) if given else _make_usual_template(cluster)
    metadata = template.setdefault("metadata", {})
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    container = template["spec"]["containers"][0]
    address = f"http://{format_dashboard(cluster)}"
    job = rayjob["status"]["jobId"]
    container["command"] = ["/bin/bash", "-ce", "--"]
    container["args"] = [render_script(address, job, rayjob["spec"]["entrypoint"])]
    container["env"] = [
        *container.get("env", ()),
        {"name": "RAY_DASHBOARD_ADDRESS", "value": address},
        {"name": "RAY_JOB_SUBMISSION_ID", "value": job},
    ]
    give_token(container, cluster)
    return template


def _make_usual_template(cluster: Json) -> Json:
    head: Any = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    container = {
        "name": SUBMITTER,
        "image": head["image"],
        "resources": {
            "limits": {"cpu": "1", "memory": "1Gi"},
            "requests": {"cpu": "500m", "memory": "200Mi"},
        },
    }
    return {"spec": {"restartPolicy": "Never", "containers": [container]}}


def render_script(address: str, job: str, entrypoint: str) -> str:
    """Render the submitter's script: wait for Ray, submit once, follow the log to its end.

    A second submitter of the same job finds the job and only follows its log.
    """
    words = shlex.join(shlex.split(entrypoint))
    version = f"{address}/api/version"
    headers = f"{{'Authorization': 'Bearer ' + os.environ.get('{TOKEN}', '')}}"
    asking = (
        "import os, urllib.request as web;"
        f" web.urlopen(web.Request('{version}', headers={headers}), timeout=5)"
    )
    return "\n".join(
        (
            f'until python -c "{asking}" > /dev/null 2>&1; do sleep 2; done',
            f"if ! ray job status --address {address} {job} > /dev/null 2>&1; then",
            f"  ray job submit --address {address} --no-wait --submission-id {job} -- {words}",
            "fi",
            f"ray job logs --address {address} --follow {job}",
        )
    )
