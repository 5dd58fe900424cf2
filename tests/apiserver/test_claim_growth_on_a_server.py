"""A real API server accepts a claim's growth only if its storage class allows growth."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from api_server import ApiServer
from kube_client import KubeClient, Refusal
from operator_process import QUICK, run_operator
from operator_stories import NAME, spell_pipeline
from recordings import Json

CLAIM = f"{NAME}-ledger"


def make_class(client: KubeClient, name: str, *, grows: bool) -> None:
    """Create a storage class if missing."""
    if client.get("StorageClass", name) is None:
        client.create(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": name},
                "provisioner": "example.org/none",
                "allowVolumeExpansion": grows,
            }
        )


def read_claim(client: KubeClient, namespace: str) -> Json:
    return client.get("PersistentVolumeClaim", CLAIM, namespace) or {}


def read_size(client: KubeClient, namespace: str) -> str:
    size: str = read_claim(client, namespace)["spec"]["resources"]["requests"]["storage"]
    return size


def bind(client: KubeClient, namespace: str) -> None:
    """Give the claim a volume, as a provisioner would."""
    volume = {"spec": {"volumeName": f"volume-{namespace}"}}
    client.patch("PersistentVolumeClaim", CLAIM, volume, namespace)
    bound = {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    client.put_status("PersistentVolumeClaim", CLAIM, bound, namespace)


def read_storage(client: KubeClient, namespace: str) -> tuple[str, str]:
    status = (client.get("CurationPipeline", NAME, namespace) or {}).get("status", {})
    found = {each["type"]: each for each in status.get("conditions", [])}.get("StorageReady", {})
    return found.get("reason", ""), found.get("message", "")


@pytest.mark.parametrize("grows", [True, False], ids=["allowed", "not-allowed"])
def test_a_claim_grows_if_its_class_allows_growth(
    api_server: ApiServer, tmp_path: Path, grows: bool
) -> None:
    with closing(KubeClient(api_server.kubeconfig)) as client:
        namespace = api_server.make_namespace("growth", client)
        storage_class = f"strandline-{'grows' if grows else 'fixed'}"
        make_class(client, storage_class, grows=grows)
        ledger = {"size": "1Gi", "storageClassName": storage_class}
        words = ("--namespaces", namespace)
        with run_operator(api_server.kubeconfig, tmp_path, *words, **QUICK) as operator:
            client.create(spell_pipeline(storage={"ledger": ledger}), namespace)
            operator.wait_for(lambda: read_claim(client, namespace))
            bind(client, namespace)
            operator.wait_for(lambda: read_storage(client, namespace)[0] == "ClaimBound")
            larger = {"spec": {"storage": {"ledger": {"size": "2Gi"}}}}
            client.patch("CurationPipeline", NAME, larger, namespace)
            if grows:
                operator.wait_for(lambda: read_size(client, namespace) == "2Gi")
                way = "grows from 1Gi to 2Gi"
                operator.wait_for(lambda: way in read_storage(client, namespace)[1])
            else:
                operator.wait_for(lambda: read_storage(client, namespace)[0] == "ClaimNotGrown")
                assert "1Gi instead of 2Gi: " in read_storage(client, namespace)[1]
                assert "must support resize" in read_storage(client, namespace)[1]
                assert read_size(client, namespace) == "1Gi"
            operator.wait_for(lambda: client.list("RayJob", namespace))
            assert operator.faults == []


@pytest.mark.parametrize(
    "change", [{"storageClassName": "other"}, {"accessMode": "ReadWriteOncePod"}]
)
def test_other_ledger_fields_are_immutable(
    client: KubeClient, namespace: str, change: Json
) -> None:
    ledger = {"size": "1Gi", "storageClassName": "one"}
    client.create(spell_pipeline(storage={"ledger": ledger}), namespace)
    client.patch(
        "CurationPipeline", NAME, {"spec": {"storage": {"ledger": {"size": 9}}}}, namespace
    )
    with pytest.raises(Refusal, match="the ledger cannot be moved, and only 'size' may change"):
        client.patch("CurationPipeline", NAME, {"spec": {"storage": {"ledger": change}}}, namespace)
