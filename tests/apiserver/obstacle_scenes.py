"""Scenes: obstacles of a pipeline, and how a cluster shows each of them.

A scene has objects that exist before the pipeline, a spec, and the statuses and events that
KubeRay, the scheduler, and the kubelet write for each attempt. A server without these components
plays the scene. The module must not depend on the operator's messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

from kube_client import KubeClient
from operator_stories import NAME, spell_pipeline
from rayjob_bodies import make_rayjob
from recordings import Json

RAY = "ray.io"
ONCE = "FailedAttachVolume"  # Kubernetes reports this event once per volume and node
NODE = "node-1"
NOTHING: Json = {}
Prepare = Callable[[KubeClient, str], object]


@dataclass(frozen=True)
class Scene:
    """An obstacle.

    Attributes:
        spec: additions to the minimal spec.
        prepare: function that creates the objects that exist before the pipeline.
        missing: resource and verb of a permission that the operator lacks, or None.
        head: function that returns the current status of the head pod, or None without a head pod.
        placed: True if the head pod has a node.
        warnings: messages of the head pod's events, by reason.
        rayjob: status that KubeRay writes, or None.
        cluster: function that returns the current status of the RayCluster, or None without a
            cluster.
        queued: True if Kueue has suspended the RayJob.
        name: name of the pipeline.
    """

    spec: Json = field(default_factory=dict)
    prepare: Prepare = lambda client, namespace: None
    missing: tuple[str, str] | None = None
    head: Callable[[], Json] | None = None
    placed: bool = True
    warnings: Mapping[str, str] = field(default_factory=dict)
    rayjob: Json | None = field(default_factory=lambda: {"jobDeploymentStatus": "Initializing"})
    cluster: Callable[[], Json] | None = None
    queued: bool = False
    name: str = NAME


def waiting(reason: str, message: str = "") -> Json:
    """Return the status of a pod whose container is waiting."""
    state = {"waiting": {"reason": reason, "message": message}}
    return {
        "phase": "Pending",
        "containerStatuses": [
            {
                "name": "ray-head",
                "image": "x",
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": state,
            }
        ],
    }


def unschedulable(message: str) -> Json:
    """Return the status of a pod that the scheduler cannot place."""
    now = format_now()
    return {
        "phase": "Pending",
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": message,
                "lastTransitionTime": now,
            }
        ],
    }


def unmade() -> Json:
    """Return the status of a pod without containers."""
    return {"phase": "Pending", "containerStatuses": []}


def running() -> Json:
    """Return the status of a pod that runs."""
    return {"phase": "Running"}


def unready() -> Json:
    """Return the status of a running pod whose probe fails."""
    now = format_now()
    ready = {
        "type": "Ready",
        "status": "False",
        "reason": "ContainersNotReady",
        "message": "containers with unready status: [ray-head]",
    }
    container = {"name": "ray-head", "image": "x", "imageID": "", "ready": False}
    state = {"running": {"startedAt": now}}
    return {
        "phase": "Running",
        "startTime": now,
        "conditions": [{**ready, "lastTransitionTime": now}],
        "containerStatuses": [{**container, "restartCount": 0, "started": True, "state": state}],
    }


def format_now(ahead: float = 0.0) -> str:
    """Return the current time in the API server's format, optionally some seconds ahead."""
    now = datetime.now(UTC) + timedelta(seconds=ahead)
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def make_claim(status: Json, **spec: object) -> Prepare:
    """Return a function that creates the claim `shared` with the given status."""

    def prepare(client: KubeClient, namespace: str) -> None:
        body: Json = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "shared"},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "resources": {"requests": {"storage": "1Gi"}},
                **spec,
            },
        }
        client.create(body, namespace)
        client.put_status("PersistentVolumeClaim", "shared", status, namespace)

    return prepare


def use_quota_up(client: KubeClient, namespace: str) -> None:
    """Create an exhausted quota. No controller counts the usage, so write the usage, too."""
    hard = {f"count/rayjobs.{RAY}": "0"}
    quota: Json = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}}
    client.create({**quota, "spec": {"hard": hard}}, namespace)
    client.put_status("ResourceQuota", "none", {"hard": hard, "used": hard}, namespace)


def put_rayjob_in_the_way(client: KubeClient, namespace: str) -> None:
    """Create a RayJob of another owner with the name of the first attempt's RayJob."""
    client.create(make_rayjob(f"{NAME}-1"), namespace)


def write_defaults(ray: str) -> Prepare:
    """Return a function that creates the namespace's defaults with the given text for `ray`."""

    def prepare(client: KubeClient, namespace: str) -> None:
        body: Json = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "strandline-defaults"},
            "data": {"ray": ray},
        }
        client.create(body, namespace)

    return prepare


def put_predecessor(**spec: object) -> Prepare:
    """Return a function that creates the pipeline `before`, which has not run."""

    def prepare(client: KubeClient, namespace: str) -> None:
        client.create(spell_pipeline("before", suspend=True, **spec), namespace)

    return prepare


def on_claim(name: str) -> Json:
    """Return spec fields that put the ledger on an existing claim."""
    return {"storage": {"ledger": {"claimName": name}}}


NO_NODE = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."
NO_MEMORY = "0/3 nodes are available: 3 Insufficient memory."
UNBOUND = "0/3 nodes are available: 3 pod has unbound immediate PersistentVolumeClaims."
QUOTA_ON_PODS = (
    'pods "corpus-1-head-abcde" is forbidden: exceeded quota: small, requested: '
    "limits.memory=4Gi, used: limits.memory=0, limited: limits.memory=1Gi"
)
WEBHOOK_ON_PODS = 'admission webhook "validate.example.com" denied the request: image is not signed'


def refused(message: str) -> Json:
    """Return the status of a RayCluster whose head KubeRay may not create."""
    return {
        "conditions": [
            {
                "type": "ReplicaFailure",
                "status": "True",
                "reason": "FailedCreateHeadPod",
                "message": f"FailedCreateHeadPod\n{message}",
                "lastTransitionTime": format_now(),
            }
        ]
    }


def list_scenes() -> dict[str, Scene]:
    """Return all obstacles by name."""
    return list_refusals() | list_of_specs() | list_of_claims() | list_of_kuberay() | list_of_pods()


def list_refusals() -> dict[str, Scene]:
    """Return obstacles caused by rejections of the API server."""
    return {
        "The operator may not create RayJobs": Scene(missing=("rayjobs", "create")),
        "The operator may not list pods": Scene(missing=("pods", "list")),
        "The operator may not create claims": Scene(missing=("persistentvolumeclaims", "create")),
        "A quota leaves no room for a RayJob": Scene(prepare=use_quota_up),
        "Another RayJob has the name": Scene(prepare=put_rayjob_in_the_way),
        "KubeRay does not know an option": Scene(
            spec={"ray": {"authOptions": {"mode": "token", "later": True}}}
        ),
    }


def list_of_specs() -> dict[str, Scene]:
    """Return obstacles in the spec and its references."""
    after: Json = {"after": [{"name": "before"}]}
    return {
        "A field of the spec is wrong": Scene(spec={"schedule": {"cron": "5-1 * * * *"}}),
        "The defaults of the namespace can't be read": Scene(prepare=write_defaults("[")),
        "A pipeline that comes before has not run": Scene(spec=after, prepare=put_predecessor()),
        "Two pipelines come after each other": Scene(
            spec=after, prepare=put_predecessor(after=[{"name": NAME}])
        ),
        "The pipeline is suspended": Scene(spec={"suspend": True}),
        "Kueue holds the attempt back": Scene(
            spec={"ray": {"queueName": "nowhere"}},
            rayjob={"jobDeploymentStatus": "Suspended"},
            queued=True,
        ),
    }


def list_of_claims() -> dict[str, Scene]:
    """Return obstacles of claims."""
    return {
        "A claim is not there": Scene(spec=on_claim("shared")),
        "A claim has no volume": Scene(
            spec=on_claim("shared"),
            prepare=make_claim({"phase": "Pending"}, storageClassName="nowhere"),
            head=partial(unschedulable, UNBOUND),
            placed=False,
        ),
        "A claim has lost its volume": Scene(
            spec=on_claim("shared"), prepare=make_claim({"phase": "Lost"})
        ),
        "A claim can't be written": Scene(
            spec=on_claim("shared"),
            prepare=make_claim({"phase": "Bound"}, accessModes=["ReadOnlyMany"]),
        ),
    }


def list_of_kuberay() -> dict[str, Scene]:
    """Return obstacles from KubeRay, and from objects that KubeRay may not create."""
    return {
        "KubeRay does nothing": Scene(rayjob=None),
        "A quota refuses the pods": Scene(
            spec={"retry": {"jitter": "none", "delay": "10m"}},
            cluster=partial(refused, QUOTA_ON_PODS),
        ),
        "A webhook refuses the pods": Scene(cluster=partial(refused, WEBHOOK_ON_PODS)),
    }


def list_of_pods() -> dict[str, Scene]:
    """Return obstacles of pods of an attempt."""
    return {
        "No node fits": Scene(head=partial(unschedulable, NO_NODE), placed=False),
        "No node has room": Scene(head=partial(unschedulable, NO_MEMORY), placed=False),
        "A node is on its way": Scene(
            head=partial(unschedulable, NO_MEMORY),
            placed=False,
            warnings={"TriggeredScaleUp": "pod triggered scale-up: [{pool 0->1 (max: 3)}]"},
        ),
        "An image can't be pulled": Scene(
            head=partial(
                waiting, "ImagePullBackOff", 'Back-off pulling image "registry.example.com/x:1"'
            )
        ),
        "A container can't be made": Scene(
            head=partial(waiting, "CreateContainerConfigError", 'secret "s3" not found')
        ),
        "A volume can't be mounted": Scene(
            head=unmade, warnings={"FailedMount": 'secret "s3" not found'}
        ),
        "A volume is attached to another node": Scene(
            head=unmade,
            warnings={
                "FailedAttachVolume": 'Multi-Attach error for volume "pvc-1" Volume is already '
                "exclusively attached to one node and can't be attached to another"
            },
        ),
        "A pod does not become ready": Scene(
            head=unready,
            warnings={"Unhealthy": "Readiness probe failed: connection refused"},
        ),
        "The driver does not answer": Scene(
            head=running,
            rayjob={
                "jobDeploymentStatus": "Running",
                "jobStatus": "RUNNING",
                "jobId": "corpus",
                "rayClusterName": "corpus-1-cluster",
            },
        ),
    }


class Cluster:
    """Acts as KubeRay, the scheduler, and the kubelet in the namespace of a scene."""

    def __init__(self, client: KubeClient, namespace: str, scene: Scene) -> None:
        self._client, self._namespace, self._scene = client, namespace, scene
        self._played: set[str] = set()
        self._ahead = 0.0

    def go_on(self, ahead: float) -> None:
        """Set how many seconds have passed since the start. The kubelet repeats its warnings."""
        self._ahead = ahead
        for pod in self._client.list("Pod", self._namespace):
            self._warn_again(pod)

    def tick(self) -> None:
        """Write the objects and events of new attempts, and remove the pods of ended attempts."""
        rayjobs = {
            body["metadata"]["name"]: body
            for body in self._client.list("RayJob", self._namespace)
            if "strandline.dev/attempt" in body["metadata"].get("labels", {})
        }
        for name in self._played - rayjobs.keys():
            self._sweep(name)
        for name in rayjobs.keys() - self._played:
            self._play(name, rayjobs[name])

    def _play(self, name: str, rayjob: Json) -> None:
        self._played.add(name)
        scene = self._scene
        if scene.queued:
            self._client.patch("RayJob", name, {"spec": {"suspend": True}}, self._namespace)
        if scene.cluster is not None:
            self._make_cluster(name, rayjob["metadata"]["labels"], scene.cluster())
        if scene.rayjob is not None:
            status = dict(scene.rayjob)
            if scene.cluster is not None:
                status["rayClusterName"] = f"{name}-cluster"
            self._client.put_status("RayJob", name, status, self._namespace)
        if scene.head is not None:
            self._make_head(name, rayjob["metadata"]["labels"], scene.head())

    def _make_cluster(self, name: str, labels: Json, status: Json) -> None:
        cluster = f"{name}-cluster"
        body: Json = {
            "apiVersion": f"{RAY}/v1",
            "kind": "RayCluster",
            "metadata": {"name": cluster, "labels": labels},
            "spec": {"headGroupSpec": {"template": {"spec": {"containers": [CONTAINER]}}}},
        }
        self._client.create(body, self._namespace, fieldValidation="Warn")
        self._client.put_status("RayCluster", cluster, status, self._namespace)

    def _make_head(self, name: str, labels: Json, status: Json) -> None:
        pod = f"{name}-head"
        spec: Json = {"containers": [CONTAINER]}
        body: Json = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": pod, "labels": {**labels, "strandline.dev/role": "head"}},
            "spec": {**spec, "nodeName": NODE} if self._scene.placed else spec,
        }
        made = self._client.create(body, self._namespace)
        # Write events first. Otherwise a pass could read a status without its explanation.
        self._warn_again(made)
        self._client.put_status("Pod", pod, status, self._namespace)

    def _warn_again(self, pod: Json) -> None:
        for reason, message in self._scene.warnings.items():
            if reason != ONCE or not self._ahead:
                self._warn(pod, reason, message)

    def _warn(self, pod: Json, reason: str, message: str) -> None:
        name = pod["metadata"]["name"]
        about = {"kind": "Pod", "name": name, "namespace": self._namespace}
        body: Json = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{name}.{reason.lower()}.{self._ahead:.0f}"},
            "involvedObject": {**about, "uid": pod["metadata"]["uid"]},
            "type": "Normal" if reason == "TriggeredScaleUp" else "Warning",
            "reason": reason,
            "message": message,
            "lastTimestamp": format_now(self._ahead),
        }
        self._client.create(body, self._namespace)

    def _sweep(self, name: str) -> None:
        self._played.discard(name)
        for kind, full in (("Pod", f"{name}-head"), ("RayCluster", f"{name}-cluster")):
            if self._client.get(kind, full, self._namespace) is not None:
                self._client.delete(kind, full, self._namespace, grace=0)


CONTAINER: Json = {"name": "ray-head", "image": "x"}
