"""Stories of pipelines: KubeRay's recordings, the user's actions, and the expected end.

A `Performance` plays a story in a separate namespace. The caller runs an operator and calls `tick`
until the story `is_over`. Then `end` has the facts that must not depend on failures of the
operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

import yaml

from api_server import ApiServer
from kube_client import KubeClient, ServerStage
from kuberay_player import NODE, Troupe
from recordings import Json
from strandline_api.names import CANCEL_ANNOTATION

NAME = "corpus"
CLAIM = f"{NAME}-ledger"
RUNNING = "RayJob RUNNING"


class Deed(NamedTuple):
    """A user's action, taken when the pipeline reaches a phase; "gone" is a phase, too."""

    phase: str
    patch: Json | None  # None deletes the pipeline


class Story(NamedTuple):
    """Recordings in order, the user's actions, and the pipeline's final phase.

    Attributes:
        causes: the attempts' causes, in order. Alternatives, separated by `|`, are allowed if the
            best evidence came while no operator was running.
    """

    programme: Sequence[str]
    phase: str
    causes: Sequence[str]
    deeds: Sequence[Deed] = ()


CANCEL: Json = {"metadata": {"annotations": {CANCEL_ANNOTATION: "enough"}}}
STORIES = {
    "goes well": Story(["s-k-success"], "Succeeded", [""]),
    "bad spec": Story(["s-k-exit-64"], "Failed", ["InvalidSpec"]),
    "fails twice": Story(
        ["b-app-failure", "b-app-failure", "s-k-success"],
        "Succeeded",
        ["ApplicationError|SubmissionFailed"] * 2 + [""],
    ),
    "out of memory": Story(
        ["c2-worker-container-oom-kernel", "s-k-success"],
        "Succeeded",
        ["OOMKilled|ApplicationError", ""],
    ),
    "head preempted": Story(
        ["s-k-head-preempted-linger", "s-k-success"],
        "Succeeded",
        ["Preempted|Interrupted|ApplicationError", ""],
    ),
    "head deleted": Story(
        ["s-k-head-deleted", "s-k-success"], "Succeeded", ["Interrupted|ApplicationError", ""]
    ),
    "cancelled": Story(["s-k-success"], "Failed", ["UserCancelled"], [Deed("Running", CANCEL)]),
    "suspended": Story(
        ["s-k-success", "s-k-success"],
        "Succeeded",
        ["Interrupted", ""],
        [
            Deed("Running", {"spec": {"suspend": True}}),
            Deed("Suspended", {"spec": {"suspend": False}}),
        ],
    ),
    "deleted": Story(["s-k-success"], "gone", [], [Deed("Running", None)]),
}


def spell_pipeline(name: str = NAME, **spec: Any) -> Json:
    """Return a pipeline that retries after one second."""
    return {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": name},
        "spec": {
            "source": {"use": "files"},
            "sink": {"use": "jsonl"},
            "retry": {"jitter": "none", "delay": "1s"},
            "ray": {"workerGroups": [{"name": "cpu", "resources": {"memory": "8Gi"}}]},
            **spec,
        },
    }


def apply_pipeline(client: KubeClient, namespace: str) -> Json:
    """Apply the pipeline as `kubectl apply --server-side` does."""
    text = yaml.safe_dump(spell_pipeline()).encode()
    return client.apply(text, "CurationPipeline", NAME, namespace, fieldManager="somebody")


def make_node(client: KubeClient) -> None:
    """Create the node of all pods if missing. Without the node, the pods would count as lost."""
    if client.get("Node", NODE) is None:
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
        node: Json = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
        client.create(node, "")
        client.put_status("Node", NODE, {"conditions": [ready]}, "")


def describe(spec: Json) -> Json:
    """Return the parts of an attempt's spec that are equal in every run of a story."""
    return {
        name: value for name, value in spec.items() if name not in {"pipelineUid", "retryCause"}
    }


@dataclass
class Performance:
    """One performance of a story, for one thread.

    Attributes:
        pipeline: the object as last read, or None after its deletion.
        phases: phases seen so far, in order.
    """

    story: Story
    client: KubeClient
    namespace: str
    troupe: Troupe
    pipeline: Json | None
    phases: list[str] = field(default_factory=list)
    _deeds: list[Deed] = field(default_factory=list)
    _is_bound: bool = False

    @classmethod
    def open(cls, server: ApiServer, client: KubeClient, story: Story) -> Performance:
        """Create a performance: apply the pipeline in a new namespace."""
        namespace = server.make_namespace("run", client)
        make_node(client)
        pipeline = apply_pipeline(client, namespace)
        begin = datetime.now(UTC)
        troupe = Troupe(ServerStage(client), namespace, story.programme, begin=begin)
        return cls(story, client, namespace, troupe, pipeline, _deeds=list(story.deeds))

    async def tick(self) -> None:
        """Advance KubeRay, the storage, and the user by one step."""
        self.look()
        self._bind_claim()
        if not self._is_held:
            await self.troupe.tick()
        if self.phase not in self.phases[-1:]:
            self.phases.append(self.phase)
        if self._deeds and self.phase == self._deeds[0].phase:
            self._do(self._deeds.pop(0))

    def look(self) -> None:
        """Read the pipeline."""
        self.pipeline = self.client.get("CurationPipeline", NAME, self.namespace)

    @property
    def status(self) -> Json:
        """The pipeline's status, or an empty object."""
        return dict((self.pipeline or {}).get("status", {}))

    @property
    def phase(self) -> str:
        """The pipeline's phase, or "gone"."""
        return "gone" if self.pipeline is None else str(self.status.get("phase", ""))

    @property
    def causes(self) -> list[str]:
        """The causes of ended attempts, in order."""
        return [attempt.get("cause", "") for attempt in self.status.get("attempts", ())]

    @property
    def is_over(self) -> bool:
        """True if the story has ended, and no attempt or finalizer remains."""
        if self.pipeline is None:
            return self.story.phase == "gone"
        is_final = self.phase in {"Succeeded", "Failed"}
        return is_final and not self.pipeline["metadata"].get("finalizers")

    @property
    def end(self) -> Json:
        """The facts that must not depend on kills of the operator."""
        self.look()
        status = self.status
        names = ("attempt", "run", "retries", "memory")
        conditions = status.get("conditions", ())
        return {
            "phase": self.phase,
            **{name: status.get(name) for name in names},
            "numbers": [attempt["number"] for attempt in status.get("attempts", ())],
            "causes": self.causes,
            "conditions": {
                condition["type"]: (condition["status"], condition["reason"])
                for condition in conditions
            },
            "attempts": {
                one["metadata"]["name"]: (describe(one["spec"]), one["status"].get("isFrozen"))
                for one in self.client.list("CurationAttempt", self.namespace)
            },
            "left": [
                f"{kind} {one['metadata']['name']}"
                for kind in ("RayJob", "RayCluster", "Pod")
                for one in self.client.list(kind, self.namespace)
            ],
            "claim": self.client.get("PersistentVolumeClaim", CLAIM, self.namespace) is not None,
        }

    @property
    def _is_held(self) -> bool:
        """True while KubeRay waits for the user's action during a run."""
        players = list(self.troupe.players.values())
        if not self._deeds or self._deeds[0].phase != "Running":
            return False
        return bool(players) and RUNNING not in players[0].marks

    def _do(self, deed: Deed) -> None:
        if deed.patch is None:
            self.client.delete("CurationPipeline", NAME, self.namespace)
        else:
            self.client.patch("CurationPipeline", NAME, deed.patch, self.namespace)

    def _bind_claim(self) -> None:
        """Bind the claim as a storage controller does."""
        kind, place = "PersistentVolumeClaim", (CLAIM, self.namespace)
        if not self._is_bound and self.client.get(kind, *place) is not None:
            self.client.put_status(kind, CLAIM, {"phase": "Bound"}, self.namespace)
            self._is_bound = True
