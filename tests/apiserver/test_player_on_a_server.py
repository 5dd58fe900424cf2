"""A real API server accepts every status of the recordings, and removes all pods at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from api_server import ApiServer
from kube_client import KubeClient, Refusal, ServerStage
from kuberay_player import Player, Stage
from rayjob_bodies import make_rayjob
from recordings import Json, read_recording
from waiting import wait_until

# Recordings with the operator's submission mode, and one recording for each further kind of state.
PLAYED = [
    "s-k-head-and-submitter-evicted",
    "s-k-head-deleted-before-ready",
    "s-k-head-preempted-linger",
    "s-k-rayjob-deleted",
    "s-k-success",
    "c2-worker-container-oom-kernel",
    "d3-head-container-oom-kernel",
    "e1-submitter-oom",
    "g5-head-evicted-httpmode",
    "h-image-pull",
    "i-unschedulable",
    "m-backoff-retry",
    "s-suspend",
]


class AttentiveStage(ServerStage):
    """A stage that records status fields that the server drops or changes."""

    def __init__(self, client: KubeClient) -> None:
        super().__init__(client)
        self.client = client
        self.lost: list[str] = []

    async def put_status(self, kind: str, namespace: str, name: str, status: Json) -> None:
        try:
            stored = self.client.put_status(kind, name, status, namespace)
        except Refusal as refusal:
            assert refusal.status == 404, refusal  # noqa: PT017
            return
        self.lost += list_lost(status, stored.get("status", {}), kind)


def list_lost(sent: Any, stored: Any, path: str) -> Iterator[str]:
    """Yield the paths at which the stored value differs from the sent value. Ignore additions."""
    if isinstance(sent, dict) and isinstance(stored, dict):
        for key, value in sent.items():
            if value not in ({}, [], "", 0):  # the server may drop such a value
                yield from list_lost(value, stored.get(key), f"{path}.{key}")
    elif isinstance(sent, list) and isinstance(stored, list) and len(sent) == len(stored):
        for index, value in enumerate(sent):
            yield from list_lost(value, stored[index], f"{path}[{index}]")
    elif sent != stored:
        yield f"{path}: {sent} became {stored}"


@pytest.mark.parametrize("name", PLAYED)
def test_a_real_server_keeps_every_status_and_removes_all_pods(
    name: str, client: KubeClient, namespace: str
) -> None:
    stage = AttentiveStage(client)
    rayjob = client.create(make_rayjob(), namespace)
    player = Player(stage, read_recording(name), rayjob)
    asyncio.run(player.play())
    if client.get("RayJob", "corpus-1", namespace):
        client.delete("RayJob", "corpus-1", namespace)
    asyncio.run(player.play())
    assert stage.lost == []
    for kind in ("RayJob", "RayCluster", "Job", "Pod"):
        assert client.list(kind, namespace) == []


def test_a_terminating_pod_exists_until_the_player_ends_it(
    client: KubeClient, stage: Stage, namespace: str
) -> None:
    rayjob = client.create(make_rayjob(), namespace)
    player = Player(stage, read_recording("s-k-success"), rayjob)
    asyncio.run(player.play("RayJob RUNNING"))
    client.delete("RayJob", "corpus-1", namespace)
    pods = client.list("Pod", namespace, labelSelector="ray.io/is-ray-node=yes")
    assert len(pods) == 2
    asyncio.run(player.play("head deleting"))
    going = client.list("Pod", namespace, labelSelector="ray.io/node-type=head")
    assert [("deletionTimestamp" in pod["metadata"]) for pod in going] == [True]
    asyncio.run(player.play())
    assert client.list("Pod", namespace) == []


def test_a_lost_field_is_detected() -> None:
    assert list(list_lost({"a": {"b": 1}, "c": ""}, {"a": {}, "d": 2}, "X")) == [
        "X.a.b: 1 became None"
    ]


def test_dependents_of_a_deleted_owner_are_collected(api_server: ApiServer, namespace: str) -> None:
    client = api_server.client
    rayjob = client.create(make_rayjob(), namespace)
    owner = {key: rayjob[key] for key in ("apiVersion", "kind")}
    owner |= {key: rayjob["metadata"][key] for key in ("name", "uid")}
    metadata = {"name": "left", "ownerReferences": [owner]}
    client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}, namespace)
    client.delete("RayJob", "corpus-1", namespace)
    wait_until(lambda: client.get("ConfigMap", "left", namespace) is None)


def test_a_deleted_namespace_goes_with_its_content(api_server: ApiServer) -> None:
    client = api_server.client
    name = api_server.make_namespace()
    client.create(make_rayjob(), name)
    client.delete("Namespace", name)
    wait_until(lambda: client.get("Namespace", name) is None)


def test_an_account_without_permissions_gets_the_servers_refusal(
    api_server: ApiServer, namespace: str
) -> None:
    client = KubeClient(api_server.make_account(namespace, "nobody"))
    with pytest.raises(Refusal, match=r'User "system:serviceaccount:.*:nobody" cannot list') as it:
        client.list("RayJob", namespace)
    assert (it.value.status, it.value.reason) == (403, "Forbidden")
    client.close()
