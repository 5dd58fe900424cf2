"""The operator's process reports its health, leaves no kopf traces, and waits for permissions."""

from __future__ import annotations

import asyncio
from pathlib import Path

from api_server import ApiServer
from kube_client import KubeClient
from kuberay_player import Stage, Troupe
from operator_process import run_operator
from recordings import Json

PIPELINE: Json = {
    "apiVersion": "strandline.dev/v1alpha1",
    "kind": "CurationPipeline",
    "metadata": {"name": "corpus"},
    "spec": {
        "source": {"use": "files"},
        "sink": {"use": "jsonl"},
        "ray": {"workerGroups": [{"name": "cpu"}]},
    },
}
COUNTED = 'strandline_attempts_total{cause="Completed"} 1.0'


def test_a_cluster_wide_operator_reports_its_health(
    api_server: ApiServer, client: KubeClient, stage: Stage, namespace: str, tmp_path: Path
) -> None:
    troupe = Troupe(stage, namespace, ["s-k-success"])
    with run_operator(api_server.kubeconfig, tmp_path) as operator:
        client.create(PIPELINE, namespace)

        def is_counted() -> bool:
            asyncio.run(troupe.tick())
            return COUNTED in operator.ask("metrics")[1]

        operator.wait_for(lambda: any("dispatch" in line["message"] for line in operator.lines))
        operator.wait_for(is_counted)
        code, text = operator.ask("healthz")
        assert operator.stop() == 0

    assert code == 200
    assert "queue_lag_seconds" in text
    about = [line for line in operator.lines if line.get("pipeline") == f"{namespace}/corpus"]
    dispatched = [line for line in about if line["message"].startswith("dispatch ")]
    assert [line["attempt"] for line in dispatched] == ["corpus-1"]
    made = [line for line in about if line["message"] == "created rayjobs.ray.io corpus-1"]
    assert [(line["attempt"], line["rayjob"]) for line in made] == [("corpus-1", "corpus-1")]
    for kind in ("CurationPipeline", "CurationAttempt"):
        (body,) = client.list(kind, namespace)
        assert not body["metadata"].get("annotations")
        assert not body["metadata"].get("finalizers")


def test_an_operator_without_permissions_waits_and_names_them(
    api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    kubeconfig = api_server.make_account(namespace, "powerless")
    with run_operator(kubeconfig, tmp_path) as operator:
        operator.wait_for(
            lambda: any("lacks permissions" in line["message"] for line in operator.lines)
        )
        assert operator.stop() == 0

    assert any("cannot list resource" in line["message"] for line in operator.lines)
    assert not any("error" in line for line in operator.lines)
