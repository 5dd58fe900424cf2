"""Record Karpenter's removals and failed creations of nodes: `make karpenter`.

The recording uses a real API server and scheduler, and Karpenter with a provider whose nodes are
only objects. This module plays the kubelets: nodes become ready, pods run, and deleted pods
disappear. Each story is written to a file of tests/fixtures/karpenter with every version of nodes,
pods, NodeClaims, and events. The module must not depend on how the operator interprets the objects.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from api_server import find_binary
from control_plane import find_free_ports, run_control_plane, run_program
from kube_client import KubeClient, Refusal

Json = dict[str, Any]
FIXTURES = Path(__file__).parents[1] / "fixtures" / "karpenter"
VERSION = "v1.15.0"
NAMESPACE = "team"
POOLS, CLAIMS = "apis/karpenter.sh/v1/nodepools", "apis/karpenter.sh/v1/nodeclaims"
CLASSES = "apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"
PODS = f"api/v1/namespaces/{NAMESPACE}/pods"
WATCHED = {
    "Node": "api/v1/nodes",
    "Pod": PODS,
    "NodeClaim": CLAIMS,
    "Event": "api/v1/events",
}
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
PAUSE, GRACE, LONGEST = 0.3, 2.0, 240.0
# Large fields that are irrelevant for the tests.
NOISE = ("managedFields", "resourceVersion", "generation")


@dataclass
class Recorder:
    """Records every version of the watched objects, and plays kubelets.

    Attributes:
        lines: versions in the order of their observation.
    """

    client: KubeClient
    begin: float = field(default_factory=time.monotonic)
    lines: list[Json] = field(default_factory=list)
    _versions: dict[tuple[str, str, str], str] = field(default_factory=dict)
    _leaving: dict[str, float] = field(default_factory=dict)

    def tick(self) -> None:
        """Read everything once, and act as kubelets."""
        seen = {kind: self.client.ask("GET", path)["items"] for kind, path in WATCHED.items()}
        now = round(time.monotonic() - self.begin, 1)
        current = set()
        for kind, bodies in seen.items():
            for body in bodies:
                metadata = body["metadata"]
                key = (kind, metadata.get("namespace", ""), metadata["name"])
                current.add(key)
                if self._versions.get(key) != metadata["resourceVersion"]:
                    self._versions[key] = metadata["resourceVersion"]
                    self.lines.append({"time": now, "kind": kind, "object": trim(body)})
        for key in set(self._versions) - current:
            del self._versions[key]
            self.lines.append({"time": now, "kind": key[0], "gone": key[2]})
        for node in seen["Node"]:
            self._play_node(node)
        for pod in seen["Pod"]:
            self._play_pod(pod)

    def wait_for(self, what: str, is_so: Callable[[], object]) -> None:
        """Tick until a condition holds.

        Raises:
            TimeoutError: if the condition does not hold in time.
        """
        end = time.monotonic() + LONGEST
        while not is_so():
            if time.monotonic() > end:
                raise TimeoutError(f"{what} did not come about within {LONGEST:g} s")
            self.tick()
            time.sleep(PAUSE)

    def find_node(self, pod: str) -> str:
        """Return the node of a pod, or an empty string if the pod has no node or is gone."""
        try:
            return str(self.client.ask("GET", f"{PODS}/{pod}")["spec"].get("nodeName", ""))
        except Refusal:
            return ""

    def has_event(self, reason: str, word: str = "") -> bool:
        """Return True if an event with a reason, and with a word in its message, was recorded."""
        events = (
            line["object"] for line in self.lines if line["kind"] == "Event" and "object" in line
        )
        return any(
            event.get("reason") == reason and word in event.get("message", "") for event in events
        )

    def _play_node(self, node: Json) -> None:
        conditions = node.get("status", {}).get("conditions", [])
        path = f"{WATCHED['Node']}/{node['metadata']['name']}"
        if not any(entry["type"] == "Ready" for entry in conditions):
            ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
            self._patch(f"{path}/status", {"status": {"conditions": [ready]}}, STRATEGIC)
        taints = node["spec"].get("taints", [])
        left = [taint for taint in taints if taint["key"] != "node.kubernetes.io/not-ready"]
        if left != taints:
            self._patch(path, {"spec": {"taints": left}}, MERGE)

    def _play_pod(self, pod: Json) -> None:
        metadata, path = pod["metadata"], f"{PODS}/{pod['metadata']['name']}"
        if metadata.get("deletionTimestamp"):
            begun = self._leaving.setdefault(metadata["uid"], time.monotonic())
            if time.monotonic() - begun > GRACE:
                self.client.ask("DELETE", path, {"gracePeriodSeconds": 0})
        elif pod["spec"].get("nodeName") and pod["status"]["phase"] == "Pending":
            ready = {"type": "Ready", "status": "True"}
            status = {"phase": "Running", "conditions": [ready]}
            self._patch(f"{path}/status", {"status": status}, STRATEGIC)

    def _patch(self, path: str, patch: Json, content: str) -> None:
        try:
            self.client.ask("PATCH", path, patch, content=content)
        except Refusal as refusal:
            # 404 and 409 mean that the object was deleted or changed since the read.
            if refusal.status not in {404, 409}:
                raise


def trim(body: Mapping[str, Any]) -> Json:
    """Return an object without irrelevant fields."""
    metadata = {key: value for key, value in body["metadata"].items() if key not in NOISE}
    return {**body, "metadata": metadata}


def render_pool(*, capacity: str, **changes: Any) -> Json:
    """Render a pool. `changes` apply to the spec of its template, except for `limits`."""
    limits = changes.pop("limits", {"cpu": "100"})
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    requirements = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity]},
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
    ]
    template = {"nodeClassRef": reference, "requirements": requirements, "expireAfter": "Never"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {
            "template": {"spec": template | changes},
            "limits": limits,
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "consolidateAfter": "5s",
            },
        },
    }


def render_pod(name: str, cpu: str, owner: Json, **annotations: str) -> Json:
    """Render a pod owned by a controller, like the pods of a Ray cluster."""
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "ownerReferences": [reference], "annotations": annotations},
        "spec": {
            "terminationGracePeriodSeconds": 30,
            "containers": [
                {"name": "ray", "image": "none", "resources": {"requests": {"cpu": cpu}}}
            ],
        },
    }


@dataclass
class Stage:
    """The cluster of a story: a recorder, a client, and an owner for the pods."""

    client: KubeClient
    recorder: Recorder
    owner: Json

    def make_pool(self, capacity: str, **changes: Any) -> None:
        """Make the pool."""
        self.client.ask("POST", POOLS, render_pool(capacity=capacity, **changes))

    def make_pod(self, name: str, cpu: str, **annotations: str) -> None:
        """Make a pod."""
        self.client.ask("POST", PODS, render_pod(name, cpu, self.owner, **annotations))

    def delete_pod(self, name: str) -> None:
        """Delete a pod."""
        self.client.ask("DELETE", f"{PODS}/{name}")

    def wait_for_node(self, pod: str) -> str:
        """Wait until a pod has a node, and return the node's name."""
        self.recorder.wait_for(f"a node of {pod}", lambda: self.recorder.find_node(pod))
        return self.recorder.find_node(pod)

    def wait_for_event(self, reason: str, word: str) -> None:
        """Wait for an event with a reason and with a word in its message."""
        self.recorder.wait_for(reason, lambda: self.recorder.has_event(reason, word))

    def wait_until_taken(self, pod: str) -> None:
        """Wait until a pod is evicted and gone."""
        self.recorder.wait_for(f"the eviction of {pod}", lambda: not self.recorder.find_node(pod))


def consolidate(stage: Stage) -> None:
    """Make Karpenter consolidate a node that is too large for its remaining pods."""
    stage.make_pool("on-demand")
    stage.make_pod("large", "14")
    stage.make_pod("small", "1")
    stage.wait_for_node("large")
    stage.wait_for_node("small")
    stage.delete_pod("large")
    stage.wait_until_taken("small")


def expire(stage: Stage) -> None:
    """Expire a node by its maximum age."""
    stage.make_pool("spot", expireAfter="30s")
    stage.make_pod("worker", "1")
    stage.wait_for_node("worker")
    stage.wait_until_taken("worker")


def take_back(stage: Stage) -> None:
    """Delete the NodeClaim of a spot node, as after an interruption, and wait for the drain."""
    stage.make_pool("spot")
    stage.make_pod("worker", "1")
    stage.wait_for_node("worker")
    (claim,) = stage.client.ask("GET", CLAIMS)["items"]
    stage.client.ask("DELETE", f"{CLAIMS}/{claim['metadata']['name']}")
    stage.wait_until_taken("worker")


def hold(stage: Stage) -> None:
    """Protect a pod from disruption, on an oversized node."""
    stage.make_pool("on-demand")
    stage.make_pod("large", "14")
    stage.make_pod("head", "1", **{"karpenter.sh/do-not-disrupt": "true"})
    stage.wait_for_node("large")
    stage.wait_for_node("head")
    stage.delete_pod("large")
    stage.wait_for_event("DisruptionBlocked", "do-not-disrupt")


def ask_too_much(stage: Stage) -> None:
    """Request a pod that fits no node type."""
    stage.make_pool("spot")
    stage.make_pod("worker", "10000")
    stage.wait_for_event("FailedScheduling", "instance type")


def approach_limits(stage: Stage) -> None:
    """Use up a pool's limit. Karpenter's message is the same as for an oversized pod."""
    stage.make_pool("spot", limits={"cpu": "4"})
    stage.make_pod("worker", "8")
    stage.wait_for_event("FailedScheduling", "instance type")


STORIES: dict[str, Callable[[Stage], None]] = {
    "consolidated": consolidate,
    "expired": expire,
    "taken-back": take_back,
    "held-back": hold,
    "too-large": ask_too_much,
    "limits-near": approach_limits,
}


@contextmanager
def run_karpenter(program: Path, kubeconfig: Path, folder: Path) -> Iterator[None]:
    """Run Karpenter until the block ends."""
    metrics, health = find_free_ports(2)
    variables = {
        "KUBECONFIG": str(kubeconfig),
        "METRICS_PORT": str(metrics),
        "HEALTH_PROBE_PORT": str(health),
        "SYSTEM_NAMESPACE": "kube-system",
        "DISABLE_LEADER_ELECTION": "true",
        "KARPENTER_SERVICE": "karpenter",
        "BATCH_MAX_DURATION": "2s",
        "BATCH_IDLE_DURATION": "1s",
        "LOG_LEVEL": "info",
    }
    with (folder / "karpenter.log").open("wb") as log:
        process = subprocess.Popen(
            [program], env={**os.environ, **variables}, stdout=log, stderr=log
        )
    try:
        yield
    finally:
        process.kill()
        process.wait()


def record(name: str, program: Path, definitions: list[Path]) -> None:
    """Play one story on an empty cluster, and write its file."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        binary = find_binary(lambda line: print(line, file=sys.stderr))
        kubeconfig = stack.enter_context(run_control_plane(binary, folder, []))
        client = KubeClient(kubeconfig)
        stack.callback(client.close)
        for path in definitions:
            words = path.stem.split("_")
            client.apply(path.read_bytes(), "CustomResourceDefinition", f"{words[1]}.{words[0]}")
        flags = {"kubeconfig": str(kubeconfig), "leader-elect": "false", "secure-port": "0"}
        stack.enter_context(run_program(binary, "kube-scheduler", folder, flags))
        wait_until_served(client)
        stack.enter_context(run_karpenter(program, kubeconfig, folder))
        client.ask("POST", "api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        client.ask("POST", CLASSES, render_class())
        owner = client.ask(
            "POST", f"api/v1/namespaces/{NAMESPACE}/configmaps", {"metadata": {"name": "owner"}}
        )
        recorder = Recorder(client)
        try:
            STORIES[name](Stage(client, recorder, owner))
            for _ in range(10):
                recorder.tick()
                time.sleep(PAUSE)
        except TimeoutError:
            print((folder / "karpenter.log").read_text()[-6000:], file=sys.stderr)
            raise
    FIXTURES.mkdir(exist_ok=True)
    lines = [{"karpenter": VERSION, "story": STORIES[name].__doc__}, *recorder.lines]
    text = "".join(json.dumps(line, sort_keys=True) + "\n" for line in lines)
    (FIXTURES / f"{name}.jsonl").write_text(text, encoding="utf-8")


def render_class() -> Json:
    """Render the class of simulated nodes."""
    return {
        "apiVersion": "karpenter.kwok.sh/v1alpha1",
        "kind": "KWOKNodeClass",
        "metadata": {"name": "default"},
        "spec": {},
    }


def wait_until_served(client: KubeClient) -> None:
    """Wait until Karpenter's kinds can be listed."""
    end = time.monotonic() + LONGEST
    for path in (POOLS, CLAIMS, CLASSES):
        while time.monotonic() < end:
            try:
                client.ask("GET", path)
                break
            except Refusal:
                time.sleep(PAUSE)


if __name__ == "__main__":
    karpenter, *folders = sys.argv[1:]
    files = sorted(path for folder in folders for path in Path(folder).glob("*.yaml"))
    for chosen in os.environ.get("STORIES", ",".join(STORIES)).split(","):
        record(chosen, Path(karpenter), files)
