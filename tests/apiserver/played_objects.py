"""The objects KubeRay makes for a RayJob, with the labels it sets and those of our templates.

Whatever carries a recorded name gets the name it has in the play. This room must not know when
anything happens.
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
# What the driver of the recordings printed, which was not yet ours.
RECORDED_OUTCOME = re.compile(r'strandline-outcome: \{"exit": (\d+), "why": "([^"]*)"[^}\n]*\}')
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def spell_played_outcome(code: int, why: str) -> str:
    """Spell the line that our driver prints where the recorded one printed its own."""
    return format_outcome_line(DriverOutcome(exit_code=code, message=f"played: {why}"))


@dataclass(frozen=True, slots=True)
class Casting:
    """Which names and times of a recording stand for which in the play.

    `later` is added to every time; a day of rehearsal would otherwise look long past.
    """

    recording: Recording
    namespace: str
    rayjob: Json
    later: timedelta

    def cast(self, recorded: Any) -> Any:
        """Put the names, times and outcome lines of the play into any JSON value; a new one."""
        if isinstance(recorded, dict):
            return {key: self.cast(value) for key, value in recorded.items()}
        if isinstance(recorded, list):
            return [self.cast(value) for value in recorded]
        return self.cast_text(recorded) if isinstance(recorded, str) else recorded

    def cast_text(self, text: str) -> str:
        """Do the same to a text."""
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
        """Take the pod template that the RayJob has for a role and a worker group.

        A group that the RayJob does not know is played by its first.
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
        """Spell the labels that KubeRay sets."""
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
    """Make a pod of a RayJob: our template on a node, with the restart policy it was recorded with.

    Another policy than the recorded one would make the recorded states impossible.
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
    """Add the containers that KubeRay adds: the sidecar of the submitter, the wait for the head."""
    there = spec.setdefault(group, [])
    known = {container["name"] for container in there}
    there += [{"name": name, "image": IMAGE} for name in names if name not in known]
    for container in there:
        container.setdefault("image", IMAGE)


def make_object(
    kind: str, version: str, name: str, owner: Json, metadata: Json, spec: Json
) -> Json:
    """Put an object together; its owner's deletion takes it along."""
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, **metadata, "ownerReferences": [refer(owner)]},
        "spec": spec,
    }


def rename_containers(status: Json, pod: Json, new: Newcomer) -> Json:
    """Say the first container's status under the name that our template gives it."""
    played, recorded = pod["spec"]["containers"][0]["name"], new.containers[0]
    containers = [
        {**container, "name": played if container["name"] == recorded else container["name"]}
        for container in status.get("containerStatuses", ())
    ]
    return {**status, "containerStatuses": containers} if containers else status


def end_ordinarily(status: Json) -> Json:
    """Give a pod the end that recorded teardowns give a running one: Failed, Error, exit 1."""
    containers = [
        {**container, "ready": False, "started": False, "state": end_state(container["state"])}
        for container in status.get("containerStatuses", ())
    ]
    return {**status, "phase": "Failed", "containerStatuses": containers}


def end_state(state: Json) -> Json:
    """End a running container; one that waits or has ended stays as it is."""
    if "running" not in state:
        return state
    started = state["running"]["startedAt"]
    ended = {"exitCode": 1, "reason": "Error", "startedAt": started, "finishedAt": started}
    return {"terminated": ended}
