"""Makes the objects that KubeRay makes for a RayJob, with KubeRay's and the templates' labels.

Recorded names are replaced by the play's names. The module must not depend on the order of events.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from kuberay_standin.objects import refer
from kuberay_standin.rayjobs.jobs import SUBMITTER
from recordings import Json, Newcomer, Recording
from strandline_api.outcome.driver_outcome import DriverOutcome, format_outcome_line

IMAGE = "ray.invalid/played"
# The output line of the recorded driver, which had an older format.
RECORDED_OUTCOME = re.compile(r'strandline-outcome: \{"exit": (\d+), "why": "([^"]*)"[^}\n]*\}')
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def spell_played_outcome(code: int, why: str) -> str:
    """Return an outcome line in the current format for an exit code and a reason."""
    return format_outcome_line(DriverOutcome(exit_code=code, message=f"played: {why}"))


@dataclass(frozen=True, slots=True)
class Casting:
    """Maps recorded names and times to the names and times of the play.

    Attributes:
        later: duration added to each recorded time, which would otherwise be in the distant past.
    """

    recording: Recording
    namespace: str
    rayjob: Json
    later: timedelta

    def cast(self, recorded: Any) -> Any:
        """Return a copy of a JSON value with the names, times, and outcome lines of the play."""
        if isinstance(recorded, dict):
            return {key: self.cast(value) for key, value in recorded.items()}
        if isinstance(recorded, list):
            return [self.cast(value) for value in recorded]
        return self.cast_text(recorded) if isinstance(recorded, str) else recorded

    def cast_text(self, text: str) -> str:
        """Return a text with the names, times, and outcome lines of the play."""
        name = str(self.rayjob["metadata"]["name"])
        if text == self.recording.rayjob:
            return name
        text = text.replace(self.recording.namespace, self.namespace)
        text = re.sub(rf"\b{re.escape(self.recording.rayjob)}(?=-[a-z0-9]{{5}}\b)", name, text)
        text = RECORDED_OUTCOME.sub(lambda it: spell_played_outcome(int(it[1]), it[2]), text)
        return TIME.sub(self._move_time, text) if self.later else text

    def _move_time(self, found: re.Match[str]) -> str:
        moved = datetime.fromisoformat(found[0]) + self.later
        return moved.astimezone(UTC).replace(microsecond=0).isoformat().replace("+00:00", "Z")

    def find_template(self, new: Newcomer) -> Json:
        """Return the RayJob's pod template for a role and a worker group.

        An unknown group gets the template of the first group.
        """
        spec = self.rayjob["spec"]
        if new.role == "submitter":
            found = spec.get("submitterPodTemplate")
        elif new.role == "head":
            found = spec["rayClusterSpec"]["headGroupSpec"]["template"]
        else:
            groups = spec["rayClusterSpec"]["workerGroupSpecs"]
            found = self._find_group(groups, new.group)["template"]
        return copy.deepcopy(found) if found else {"spec": {"containers": [{"name": SUBMITTER}]}}

    def _find_group(self, groups: list[Json], name: str) -> Json:
        return next((group for group in groups if group["groupName"] == name), groups[0])

    def label(self, new: Newcomer) -> dict[str, str]:
        """Return the labels that KubeRay sets."""
        labels: dict[str, str] = self.cast(dict(new.labels))
        if new.role == "worker":
            groups = self.rayjob["spec"]["rayClusterSpec"]["workerGroupSpecs"]
            labels["ray.io/group"] = self._find_group(groups, new.group)["groupName"]
        return labels


def make_cluster(casting: Casting, name: str, new: Newcomer, owner: Json) -> Json:
    """Make the RayCluster of a RayJob."""
    metadata = {
        "annotations": casting.rayjob["metadata"].get("annotations", {}),
        "labels": {**casting.rayjob["metadata"].get("labels", {}), **casting.label(new)},
    }
    spec = copy.deepcopy(casting.rayjob["spec"]["rayClusterSpec"])
    return make_object("RayCluster", "ray.io/v1", name, owner, metadata, spec)


def make_job(casting: Casting, name: str, new: Newcomer, owner: Json) -> Json:
    """Make the Job of the submitter."""
    container = {"name": SUBMITTER, "image": IMAGE}
    spec = {
        "backoffLimit": new.backoff_limit,
        "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
    }
    return make_object("Job", "batch/v1", name, owner, {"labels": casting.label(new)}, spec)


def make_pod(casting: Casting, name: str, new: Newcomer, owner: Json, node: str) -> Json:
    """Make a pod of a RayJob: the template on a node, with the recorded restart policy.

    Another restart policy would make the recorded states impossible.
    """
    template = casting.find_template(new)
    own = template.get("metadata", {})
    metadata = {
        "annotations": own.get("annotations", {}),
        "labels": {**own.get("labels", {}), **casting.label(new)},
    }
    spec = template["spec"]
    spec |= {"nodeName": node, "restartPolicy": new.restart_policy}
    add_containers(spec, "containers", new.containers[1:])
    add_containers(spec, "initContainers", new.init_containers)
    return make_object("Pod", "v1", name, owner, metadata, spec)


def add_containers(spec: Json, group: str, names: tuple[str, ...]) -> None:
    """Add the containers that KubeRay adds: the submitter's sidecar, and the wait for the head."""
    there = spec.setdefault(group, [])
    known = {container["name"] for container in there}
    there += [{"name": name, "image": IMAGE} for name in names if name not in known]
    for container in there:
        container.setdefault("image", IMAGE)


def make_object(
    kind: str, version: str, name: str, owner: Json, metadata: Json, spec: Json
) -> Json:
    """Compose an object that is deleted with its owner."""
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, **metadata, "ownerReferences": [refer(owner)]},
        "spec": spec,
    }


def rename_containers(status: Json, pod: Json, new: Newcomer) -> Json:
    """Rename the first container's status to the container's name in the template."""
    played, recorded = pod["spec"]["containers"][0]["name"], new.containers[0]
    containers = [
        {**container, "name": played if container["name"] == recorded else container["name"]}
        for container in status.get("containerStatuses", ())
    ]
    return {**status, "containerStatuses": containers} if containers else status


def end_ordinarily(status: Json) -> Json:
    """End a running pod with the usual end of recorded teardowns: Failed, Error, exit code 1."""
    containers = [
        {**container, "ready": False, "started": False, "state": end_state(container["state"])}
        for container in status.get("containerStatuses", ())
    ]
    return {**status, "phase": "Failed", "containerStatuses": containers}


def end_state(state: Json) -> Json:
    """End a running container. Leave waiting and ended containers unchanged."""
    if "running" not in state:
        return state
    started = state["running"]["startedAt"]
    ended = {"exitCode": 1, "reason": "Error", "startedAt": started, "finishedAt": started}
    return {"terminated": ended}
