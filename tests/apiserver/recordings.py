"""Reads recordings of a real KubeRay from `tests/fixtures/kuberay` as ordered steps.

`tests/fixtures/trim_recordings.py` defines the file format. The module must not depend on the
players.

Each step has marks: facts that hold for its object from this step on and did not hold before. With
a mark, a test specifies how far to play. The marks are

- `RayJob Running`, `RayJob RUNNING`, `RayJob AppFailed`: jobDeploymentStatus, jobStatus, reason;
- `RayCluster ready`, `RayCluster RayClusterProvisioned`: the state, and each true condition;
- `head Running`, `worker Ready`, `submitter Succeeded`: phase, and each true condition
  (`head DisruptionTarget`), by the pod's role;
- `head OOMKilled`, `worker ImagePullBackOff`, `worker Unschedulable`: reasons of containers that
  wait or have ended, and of a condition PodScheduled that is false;
- `<kind or role> new`, `... deleting`, `... gone`;
- actions of the recorder on the cluster, in its words: `evict`, `delete pod`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

Json = dict[str, Any]

FOLDER = Path(__file__).parents[1] / "fixtures" / "kuberay"


@dataclass(frozen=True, slots=True)
class Newcomer:
    """Facts about a new object. From `role` on, the fields apply only to pods."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    owner: str
    role: str
    group: str
    restart_policy: str
    containers: tuple[str, ...]
    init_containers: tuple[str, ...]
    backoff_limit: int


@dataclass(frozen=True, slots=True)
class Step:
    """An event of a recording, `time` seconds after the RayJob was created."""

    time: float
    kind: str = ""
    name: str = ""
    subject: str = ""  # the name in marks: the role of a pod, or the kind
    new: Newcomer | None = None
    status: Json = field(default_factory=dict)  # complete, not a patch
    is_deleting: bool = False  # this step begins the object's deletion
    is_going: bool = False  # this or an earlier step began the object's deletion
    is_gone: bool = False
    suspend: bool | None = None
    action: str = ""
    line: str = ""
    container: str = ""
    notice: Json | None = None
    marks: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        """`Kind/name`, unique among the objects that exist at the same time."""
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True)
class Recording:
    """A scenario: its name, the words of its title, the submission of the RayJob, and its steps."""

    scenario: str
    title: str
    mode: str
    namespace: str
    rayjob: str
    started_at: datetime
    steps: tuple[Step, ...]

    @property
    def marks(self) -> tuple[str, ...]:
        """All marks, in the order of their first occurrence."""
        return tuple(dict.fromkeys(mark for step in self.steps for mark in sorted(step.marks)))


def list_recordings() -> tuple[str, ...]:
    """Return the names of all recordings."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.jsonl")))


@cache
def read_recording(name: str) -> Recording:
    """Read one recording by its name, such as `s-k-success`.

    Raises:
        FileNotFoundError: if no recording has this name.
    """
    text = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8")
    head, *lines = [json.loads(line) for line in text.splitlines()]
    return Recording(
        scenario=head["scenario"],
        title=head["title"],
        mode=head["mode"],
        namespace=head["namespace"],
        rayjob=head["rayjob"],
        started_at=datetime.fromisoformat(head["startedAt"]),
        steps=tuple(read_steps(lines)),
    )


def read_steps(lines: list[Json]) -> Iterator[Step]:
    """Turn the lines of a file into steps, with complete statuses instead of patches, and marks."""
    statuses: dict[str, Json] = {}
    subjects: dict[str, str] = {}
    facts: dict[str, frozenset[str]] = {}
    going: set[str] = set()
    for line in lines:
        if "on" not in line:
            yield read_aside(line)
            continue
        key, (kind, _, name) = line["on"], line["on"].partition("/")
        new = read_newcomer(line["new"]) if "new" in line else None
        if new is not None:
            statuses[key], facts[key], subjects[key] = {}, frozenset(), new.role or kind
            going.discard(key)
        if "deleting" in line:
            going.add(key)
        statuses[key] = apply_patch(statuses[key], line["status"])
        before, facts[key] = facts[key], frozenset(list_facts(kind, statuses[key]))
        changes = [word for word in ("new", "deleting", "gone") if word in line]
        yield Step(
            time=line["t"],
            kind=kind,
            name=name,
            subject=subjects[key],
            new=new,
            status=statuses[key],
            is_deleting="deleting" in line,
            is_going=key in going,
            is_gone="gone" in line,
            suspend=line.get("suspend"),
            marks=frozenset(
                f"{subjects[key]} {word}" for word in (*changes, *(facts[key] - before))
            ),
        )


def read_aside(line: Json) -> Step:
    """Read a line without an object: an action, a log line, or a notice."""
    if "log" in line:
        pod, _, container = line["log"].partition("/")
        return Step(line["t"], name=pod, container=container, line=line["text"])
    if "notice" in line:
        return Step(line["t"], notice=line["notice"])
    return Step(line["t"], action=line["action"], marks=frozenset({line["action"]}))


def read_newcomer(told: Json) -> Newcomer:
    """Read the facts about a new object."""
    return Newcomer(
        labels=told.get("labels", {}),
        annotations=told.get("annotations", {}),
        owner=told.get("owner", ""),
        role=told.get("role", ""),
        group=told.get("group", ""),
        restart_policy=told.get("restartPolicy", ""),
        containers=tuple(told.get("containers", ())),
        init_containers=tuple(told.get("initContainers", ())),
        backoff_limit=told.get("backoffLimit", 0),
    )


def apply_patch(status: Json, patch: Json) -> Json:
    """Return the status after a patch. The arguments stay unchanged."""
    after = dict(status)
    for key, value in patch.items():
        if key.endswith("+"):
            items = {name_item(item): item for item in [*status[key[:-1]], *value]}
            after[key[:-1]] = list(items.values())
        elif value is None:
            after.pop(key, None)
        elif isinstance(value, dict) and isinstance(status.get(key), dict):
            after[key] = apply_patch(status[key], value)
        else:
            after[key] = value
    return after


def name_item(item: Json) -> str:
    """Return the key of a list item: its type, or its name if the item has no type."""
    return str(item.get("type", item.get("name")))


def list_facts(kind: str, status: Json) -> Iterator[str]:
    """Yield the words of a status that become marks."""
    for key in ("jobDeploymentStatus", "jobStatus", "reason", "phase", "state"):
        if isinstance(status.get(key), str) and status[key]:
            yield status[key]
    for condition in status.get("conditions", ()):
        if condition["status"] == "True":
            yield condition["type"]
        elif condition["type"] == "PodScheduled" and "reason" in condition:
            yield condition["reason"]
    if kind == "Pod":
        yield from list_reasons(status)


def list_reasons(status: Json) -> Iterator[str]:
    """Yield the reasons of waiting and ended containers of a pod."""
    for group in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(group, ()):
            for moment in ("state", "lastState"):
                for state in container.get(moment, {}).values():
                    if state.get("reason"):
                        yield state["reason"]
