"""A cluster with Kueue for stories: KubeRay, kubelets, storage, and a recorder.

`e2e/kuberay_standin` replaces KubeRay, and follows `suspend` as in recordings of a real KubeRay.
Pods are only objects: this module places, starts, and removes the pods. The cluster changes only
with `tick`. The module must not depend on any story.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from control_plane import LOOPBACK
from kube_client import KubeClient, Refusal
from kuberay_player import NODE
from kuberay_standin.__main__ import find_outside
from kuberay_standin.kubelet import render_running
from kuberay_standin.objects import format_time
from kuberay_standin.scene import JobAnswer
from kuberay_standin.shell.api import Api
from kuberay_standin.shell.loop import Loop

Json = dict[str, Any]
NAMESPACE = "team"
QUEUES = "apis/kueue.x-k8s.io/v1beta2"
OURS = "apis/strandline.dev/v1alpha1"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
PAUSE, GRACE, LONGEST, STEPS = 0.1, 2.0, 150.0, 8
WATCHED = {
    "RayJob": f"apis/ray.io/v1/namespaces/{NAMESPACE}/rayjobs",
    "Workload": f"{QUEUES}/namespaces/{NAMESPACE}/workloads",
    "Event": f"api/v1/namespaces/{NAMESPACE}/events",
}
PODS = f"api/v1/namespaces/{NAMESPACE}/pods"
CLAIMS = f"api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
KUBERAY = "ray.io/kuberay-operator"
# Fields of a RayJob's status that the operator reads.
STATUS = (
    "jobDeploymentStatus",
    "jobStatus",
    "rayClusterName",
    "rayJobInfo",
    "startTime",
    "endTime",
)
# Fields of a pod template that Kueue changes or reads.
TEMPLATE = ("nodeSelector", "tolerations", "schedulingGates")


class OwnApi(Api):
    """The API server as KubeRay's stand-in sees it.

    Like KubeRay, the stand-in ignores jobs that another controller manages. The fields for
    autoscaling are removed, because stories set the number of workers themselves.
    """

    def list(self, kind: str, namespace: str = "", labels: str = "") -> list[Json]:
        found = super().list(kind, namespace, labels)
        if kind != "RayJob":
            return found
        mine = [body for body in found if body["spec"].get("managedBy") in {None, KUBERAY}]
        for body in mine:
            for name in ("enableInTreeAutoscaling", "autoscalerOptions"):
                body["spec"]["rayClusterSpec"].pop(name, None)
        return mine


@dataclass
class Stage:
    """The cluster of a story.

    Attributes:
        lines: recorded lines, in order.
        unready: names of RayJobs whose pods never become ready.
        ended: Ray's status of finished jobs, by the RayJob's name.
    """

    client: KubeClient
    kuberay: Loop = field(init=False)
    api: Api
    begin: float = field(default_factory=time.monotonic)
    lines: list[Json] = field(default_factory=list)
    unready: set[str] = field(default_factory=set)
    ended: dict[str, str] = field(default_factory=dict)
    _begun: dict[str, str] = field(default_factory=dict)
    _versions: dict[tuple[str, str], str] = field(default_factory=dict)
    _last: dict[tuple[str, str], Json] = field(default_factory=dict)
    _leaving: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        outside = replace(
            find_outside(), ask=self._ask_ray, stop=lambda *_: None, report=lambda _: None
        )
        self.kuberay = Loop(self.api, outside, NAMESPACE)

    def tick(self) -> None:
        """Read everything once, and act as KubeRay, the kubelets, and the storage."""
        self._record()
        for _ in range(STEPS):
            if not self.kuberay.turn():
                break
            self._record()
        for pod in self.list_all(PODS):
            self._play_pod(pod)
        for claim in self.list_all(CLAIMS):
            if claim.get("status", {}).get("phase") != "Bound":
                path = f"{CLAIMS}/{claim['metadata']['name']}/status"
                self.patch(path, {"status": {"phase": "Bound"}})

    def wait_for(self, what: str, is_so: Callable[[], object], longest: float = LONGEST) -> None:
        """Tick until a condition holds.

        Raises:
            TimeoutError: if the condition does not hold in time.
        """
        end = time.monotonic() + longest
        while not is_so():
            if time.monotonic() > end:
                raise TimeoutError(f"{what} did not come about within {longest:g} s")
            self.tick()
            time.sleep(PAUSE)

    def go_on(self, seconds: float) -> None:
        """Tick for some seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.tick()
            time.sleep(PAUSE)

    def list_all(self, path: str) -> list[Json]:
        """Return all objects at a path."""
        found: list[Json] = self.client.ask("GET", path)["items"]
        return found

    def find(self, path: str) -> Json:
        """Return the object at a path, or an empty object if nothing exists there."""
        try:
            return self.client.ask("GET", path)
        except Refusal as refusal:
            if refusal.status != 404:
                raise
            return {}

    def patch(self, path: str, patch: Json, content: str = MERGE) -> None:
        """Change an object. Ignore a deletion or a conflicting change since the read."""
        try:
            self.client.ask("PATCH", path, patch, content=content)
        except Refusal as refusal:
            if refusal.status not in {404, 409}:
                raise

    def find_rayjob(self, name: str) -> Json:
        """Return a RayJob, or an empty object if the RayJob does not exist."""
        return self.find(f"{WATCHED['RayJob']}/{name}")

    def find_workload(self, rayjob: str) -> Json:
        """Return the newest workload of a RayJob, or an empty object."""
        workloads = self.list_all(WATCHED["Workload"])
        mine = [
            body
            for body in workloads
            if body["metadata"].get("ownerReferences", [{}])[0].get("name") == rayjob
        ]
        return max(mine, key=lambda body: str(body["metadata"]["creationTimestamp"]), default={})

    def read_condition(self, rayjob: str, kind: str) -> tuple[str, str]:
        """Return the reason and message of a workload's true condition, or empty strings."""
        conditions = self.find_workload(rayjob).get("status", {}).get("conditions", ())
        found: Json = next((each for each in conditions if each["type"] == kind), {})
        is_true = found.get("status") == "True"
        return (found["reason"], found["message"]) if is_true else ("", "")

    def finish(self, rayjob: str) -> None:
        """Complete a driver, and end its submitter."""
        self.ended[rayjob] = "SUCCEEDED"
        now = format_time(datetime.now(UTC))
        kinds = ("SuccessCriteriaMet", "Complete")
        conditions = [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in kinds]
        status = {"startTime": now, "completionTime": now, "succeeded": 1, "conditions": conditions}
        path = f"apis/batch/v1/namespaces/{NAMESPACE}/jobs/{rayjob}/status"
        self.patch(path, {"status": status})

    def _ask_ray(self, address: str, job: str, token: str) -> JobAnswer:
        del address, token
        start = self._begun.setdefault(job, format_time(datetime.now(UTC)))
        return JobAnswer(status=self.ended.get(job.rpartition("-")[0], "RUNNING"), start=start)

    def _record(self) -> None:
        now, current = round(time.monotonic() - self.begin, 1), set()
        for kind, path in WATCHED.items():
            for body in self.list_all(path):
                metadata = body["metadata"]
                current.add((kind, metadata["name"]))
                if self._versions.get((kind, metadata["name"])) == metadata["resourceVersion"]:
                    continue
                self._versions[kind, metadata["name"]] = metadata["resourceVersion"]
                trimmed = TRIMS[kind](body)
                if trimmed and self._last.get((kind, metadata["name"])) != trimmed:
                    self._last[kind, metadata["name"]] = trimmed
                    self.lines.append({"time": now, "kind": kind, "object": trimmed})
        for key in set(self._versions) - current:
            del self._versions[key]
            self._last.pop(key, None)
            if key[0] != "Event":
                self.lines.append({"time": now, "kind": key[0], "gone": key[1]})

    def _play_pod(self, pod: Json) -> None:
        metadata, path = pod["metadata"], f"{PODS}/{pod['metadata']['name']}"
        if metadata.get("deletionTimestamp"):
            begun = self._leaving.setdefault(metadata["uid"], time.monotonic())
            if time.monotonic() - begun > GRACE:
                self._try("DELETE", path, {"gracePeriodSeconds": 0})
        elif pod["spec"].get("schedulingGates"):
            return
        elif not pod["spec"].get("nodeName"):
            target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
            binding = {"apiVersion": "v1", "kind": "Binding", "target": target}
            self._try(
                "POST", f"{path}/binding", {**binding, "metadata": {"name": metadata["name"]}}
            )
        elif pod["status"]["phase"] == "Pending" and not self._is_unready(metadata["name"]):
            self.patch(
                f"{path}/status",
                {"status": render_running(pod, format_time(datetime.now(UTC)), LOOPBACK)},
                STRATEGIC,
            )

    def _is_unready(self, pod: str) -> bool:
        return any(pod.startswith(f"{rayjob}-") for rayjob in self.unready)

    def _try(self, method: str, path: str, body: Json) -> None:
        try:
            self.client.ask(method, path, body)
        except Refusal as refusal:
            # 404 and 409 mean that the object was deleted or changed since the read.
            if refusal.status not in {404, 409}:
                raise


def trim_rayjob(body: Json) -> Json:
    """Return the parts of a RayJob that Kueue writes or reads, and the status."""
    spec, cluster = body["spec"], body["spec"]["rayClusterSpec"]
    groups = {"head": cluster["headGroupSpec"]["template"]}
    groups |= {group["groupName"]: group["template"] for group in cluster["workerGroupSpecs"]}
    if "submitterPodTemplate" in spec:
        groups["submitter"] = spec["submitterPodTemplate"]
    own = {name: spec[name] for name in ("suspend", "managedBy") if name in spec}
    if cluster.get("enableInTreeAutoscaling"):
        own["enableInTreeAutoscaling"] = True
    own["templates"] = {name: trim_template(template) for name, template in groups.items()}
    status = {name: body["status"][name] for name in STATUS if body.get("status", {}).get(name)}
    return {"metadata": trim_metadata(body), "spec": own, "status": status}


def trim_template(template: Json) -> Json:
    """Return the parts of a pod template that Kueue writes."""
    spec, metadata = template["spec"], template.get("metadata", {})
    mine = {name: spec[name] for name in TEMPLATE if spec.get(name)}
    for name in ("labels", "annotations"):
        values = metadata.get(name) or {}
        queue = {key: value for key, value in values.items() if "kueue" in key}
        mine |= {name: queue} if queue else {}
    return mine


def trim_workload(body: Json) -> Json:
    """Return a workload without the templates of its pods."""
    pods = [{name: each[name] for name in ("name", "count")} for each in body["spec"]["podSets"]]
    return {
        "metadata": trim_metadata(body),
        "spec": {**body["spec"], "podSets": pods},
        "status": body.get("status", {}),
    }


def trim_event(body: Json) -> Json:
    """Return an event of Kueue, or an empty object for other events."""
    source = str(body.get("source", {}).get("component") or body.get("reportingComponent") or "")
    if "kueue" not in source and "kueue" not in str(body.get("reportingController", "")):
        return {}
    names = ("involvedObject", "type", "reason", "message", "source", "reportingComponent")
    times = ("firstTimestamp", "lastTimestamp", "eventTime", "series")
    return {name: body[name] for name in (*names, *times) if body.get(name) is not None}


def trim_metadata(body: Json) -> Json:
    """Return the metadata that recordings keep."""
    names = ("name", "uid", "creationTimestamp", "deletionTimestamp")
    metadata = body["metadata"]
    kept = {name: metadata[name] for name in names if metadata.get(name)}
    for name in ("labels", "annotations"):
        values = metadata.get(name) or {}
        mine = {key: value for key, value in values.items() if is_telling(key)}
        kept |= {name: mine} if mine else {}
    owners = metadata.get("ownerReferences", [])
    return {**kept, "owner": owners[0]["name"]} if owners else kept


def is_telling(label: str) -> bool:
    """Return True for a label or annotation of Kueue, and for the attempt's labels."""
    return "kueue.x-k8s.io" in label or label.startswith("strandline.dev/attempt")


TRIMS: Mapping[str, Callable[[Json], Json]] = {
    "RayJob": trim_rayjob,
    "Workload": trim_workload,
    "Event": trim_event,
}
