"""Recordings of a real KubeRay, read from `tests/fixtures/kuberay` as steps in order.

`tests/fixtures/trim_recordings.py` says what stands in a file. This room must not know who plays
them.

Each step has marks: the facts that are true of its object from this step on and were not before,
so that a test can say how far to play. They are

- `RayJob Running`, `RayJob RUNNING`, `RayJob AppFailed`: jobDeploymentStatus, jobStatus, reason;
- `RayCluster ready`, `RayCluster RayClusterProvisioned`: the state, and each true condition;
- `head Running`, `worker Ready`, `submitter Succeeded`: phase, and each true condition
  (`head DisruptionTarget`), by the pod's role;
- `head OOMKilled`, `worker ImagePullBackOff`, `worker Unschedulable`: reasons of containers that
  wait or have ended, and of a condition PodScheduled that is false;
- `<kind or role> new`, `... deleting`, `... gone`;
- what the recorder did to the cluster, in its words: `evict`, `delete pod`.
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
    """What is known of an object when it appears; `role` and what follows are of pods only."""

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
    """One thing that happened, `time` seconds after the RayJob was created."""

    time: float
    kind: str = ""
    name: str = ""
    subject: str = ""  # as marks name it: the role of a pod, or the kind
    new: Newcomer | None = None
    status: Json = field(default_factory=dict)  # whole, not a patch
    is_deleting: bool = False  # its deletion begins with this step
    is_going: bool = False  # its deletion has begun
    is_gone: bool = False
    suspend: bool | None = None
    action: str = ""
    line: str = ""
    container: str = ""
    notice: Json | None = None
    marks: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        """`Kind/name`; no two objects that are there at the same time share it."""
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True)
class Recording:
    """A scenario: its name, the words of its title, how the RayJob was sent, and its steps."""

    scenario: str
    title: str
    mode: str
    namespace: str
    rayjob: str
    started_at: datetime
    steps: tuple[Step, ...]

    @property
    def marks(self) -> tuple[str, ...]:
        """All marks in the order in which they are first reached."""
        return tuple(dict.fromkeys(mark for step in self.steps for mark in sorted(step.marks)))


def list_recordings() -> tuple[str, ...]:
    """Names of all recordings."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.jsonl")))


@cache
def read_recording(name: str) -> Recording:
    """Read one recording by its name, such as `s-k-success`.

    Raises:
        FileNotFoundError: there is none of this name.
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
    """Turn the lines of a file into steps: patches become whole statuses, facts become marks."""
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
    """Read what happened to no object: an action, a line of a log, or a notice."""
    if "log" in line:
        pod, _, container = line["log"].partition("/")
        return Step(line["t"], name=pod, container=container, line=line["text"])
    if "notice" in line:
        return Step(line["t"], notice=line["notice"])
    return Step(line["t"], action=line["action"], marks=frozenset({line["action"]}))


def read_newcomer(told: Json) -> Newcomer:
    """Read what a file tells of a new object."""
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
    """Follow a status to the next; neither argument is changed."""
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
    """What tells an item of a list from the others: its type, or else its name."""
    return str(item.get("type", item.get("name")))


def list_facts(kind: str, status: Json) -> Iterator[str]:
    """List the words that make the marks of one status."""
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
    """List why containers of a pod wait or have ended."""
    for group in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(group, ()):
            for moment in ("state", "lastState"):
                for state in container.get(moment, {}).values():
                    if state.get("reason"):
                        yield state["reason"]
