"""A real API server accepts the requests of `kubectl strandline`, sent by the real kubectl."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from api_server import ApiServer, find_binary
from cluster_objects import make_attempt_object, make_config, read_pipeline_object
from kube_client import KubeClient
from strandline.cli.cluster.job import JobOrder, render_job, separate_errors
from strandline.cli.cluster.placement import JobPlacement


@pytest.mark.parametrize("node", ["", "node-1"])
def test_the_job_of_a_command_is_accepted(client: KubeClient, namespace: str, node: str) -> None:
    head = json.loads(make_config(storage={"output": {"claimName": "shared"}})["data"]["head.json"])
    words = separate_errors(["strandline", "verify", "/etc/strandline/pipeline.yaml"])
    placement = JobPlacement(node, writes_ledger=bool(node), writes_output=False)
    job = render_job(JobOrder("verify", words, read_pipeline_object(), head, placement, width=80))
    job["metadata"]["namespace"] = namespace
    made = client.create(job, namespace)
    assert made["metadata"]["name"].startswith("corpus-verify-")
    assert made["metadata"]["ownerReferences"] == job["metadata"]["ownerReferences"]
    pod = made["spec"]["template"]["spec"]
    (given,) = job["spec"]["template"]["spec"]["containers"]
    (stored,) = pod["containers"]
    assert stored["volumeMounts"] == [
        {name: value for name, value in mount.items() if value is not False}
        for mount in given["volumeMounts"]
    ]
    assert stored["securityContext"] == given["securityContext"]
    assert made["spec"]["backoffLimit"] == 0
    enforced = {"pod-security.kubernetes.io/enforce": "restricted"}
    client.patch("Namespace", namespace, {"metadata": {"labels": enforced}})
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "same"}, "spec": pod}
    assert client.create(body, namespace)["spec"]["containers"][0]["name"] == "strandline"


def ask(server: ApiServer, folder: Path, *words: str) -> tuple[int, str, str]:
    """Call the plugin as kubectl does, with a kubectl of the server's version."""
    kubectl = folder / "kubectl"
    kubectl.write_text(f'#!/bin/sh\nexec {find_binary(print)} kubectl "$@"\n')
    kubectl.chmod(0o755)
    done = subprocess.run(
        [
            *(
                sys.executable,
                "-c",
                "from strandline.__main__ import main_on_cluster as main; main()",
            ),
            *(*words, "--kubeconfig", str(server.kubeconfig)),
        ],
        env={"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stdout, done.stderr


def test_requests_reach_the_server(
    api_server: ApiServer, client: KubeClient, namespace: str, tmp_path: Path
) -> None:
    body = {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": "corpus"},
        "spec": {"source": {"use": "files"}, "stages": [], "sink": {"use": "parquet"}},
    }
    client.create(body, namespace)
    where = ("corpus", "-n", namespace)
    for words, told in {
        ("suspend", *where): (
            "corpus: suspended; nothing was running, and the next attempt waits until you resume\n"
        ),
        ("resume", *where): "corpus: resumed; it continues where it stopped\n",
        ("retry", *where): "corpus: requested an attempt, which uses up no retry\n",
        ("cancel", *where): "corpus: requested the end of the run; finished sources are kept\n",
        ("attempts", *where): "there is no attempt yet\n",
    }.items():
        assert ask(api_server, tmp_path, *words) == (0, told, "")
    stored = client.get("CurationPipeline", "corpus", namespace)
    assert stored is not None
    assert stored["spec"]["suspend"] is False
    asked = {"strandline.dev/retry", "strandline.dev/cancel"}
    assert asked <= stored["metadata"]["annotations"].keys()


def test_a_job_that_does_not_start_is_deleted(
    api_server: ApiServer, client: KubeClient, namespace: str, tmp_path: Path
) -> None:
    pipeline = client.create(
        {
            "apiVersion": "strandline.dev/v1alpha1",
            "kind": "CurationPipeline",
            "metadata": {"name": "corpus"},
            "spec": {"source": {"use": "files"}, "stages": [], "sink": {"use": "parquet"}},
        },
        namespace,
    )
    missing = ask(api_server, tmp_path, "verify", "other", "-n", namespace)
    assert (missing[0], "(NotFound)" in missing[2]) == (64, True)
    generation = pipeline["metadata"]["generation"]
    status = {"observedGeneration": generation, "attempt": 1}
    client.put_status("CurationPipeline", "corpus", status, namespace)
    attempt = make_attempt_object()
    attempt |= {"apiVersion": pipeline["apiVersion"], "kind": "CurationAttempt"}
    attempt["metadata"]["namespace"] = namespace
    attempt["spec"] |= {"pipeline": "corpus", "pipelineUid": pipeline["metadata"]["uid"]}
    client.create(attempt, namespace)
    client.put_status("CurationAttempt", "corpus-1", attempt["status"], namespace)
    config = {"apiVersion": "v1", "kind": "ConfigMap", "data": make_config()["data"]}
    client.create({**config, "metadata": {"name": "corpus-1"}}, namespace)
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "corpus-ledger"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    client.create(claim, namespace)
    words = ("verify", "corpus", "-n", namespace, "--start-timeout", "3")
    code, out, err = ask(api_server, tmp_path, *words)
    assert (code, out) == (1, "")
    assert "strandline: error: the command made no progress for 3 s: " in err
    left = client.list("Job", namespace)
    assert [job for job in left if "deletionTimestamp" not in job["metadata"]] == []
