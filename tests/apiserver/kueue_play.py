"""Plays a story in Kueue's queues: actions of administrators, and waits for their effects.

If a wait fails, the recording ends. The module must not depend on any story.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kueue_objects import render_cluster_queue, render_flavor, render_local_queue
from kueue_stage import NAMESPACE, OURS, QUEUES, Stage

Json = dict[str, Any]
ATTEMPTS = f"{OURS}/namespaces/{NAMESPACE}/curationattempts"
PIPELINES = f"{OURS}/namespaces/{NAMESPACE}/curationpipelines"
LOCAL = f"{QUEUES}/namespaces/{NAMESPACE}/localqueues"
PLURALS = {
    "ClusterQueue": f"{QUEUES}/clusterqueues",
    "Cohort": f"{QUEUES}/cohorts",
    "LocalQueue": LOCAL,
    "ResourceFlavor": f"{QUEUES}/resourceflavors",
    "WorkloadPriorityClass": f"{QUEUES}/workloadpriorityclasses",
    "AdmissionCheck": f"{QUEUES}/admissionchecks",
    "MultiKueueConfig": f"{QUEUES}/multikueueconfigs",
    "MultiKueueCluster": f"{QUEUES}/multikueueclusters",
    "CurationPipeline": PIPELINES,
}


@dataclass
class Play:
    """The steps of a story.

    Attributes:
        stage: the cluster of the story.
        operator: the operator's process, with `kill` and `start`.
    """

    stage: Stage
    operator: Any = None

    def make(self, *bodies: Json) -> None:
        """Create objects in the given order."""
        for body in bodies:
            self.stage.client.ask("POST", PLURALS[body["kind"]], body)

    def prepare(self, *more: Json, **queue: Any) -> None:
        """Create a flavor, a ClusterQueue, a LocalQueue, and further objects."""
        self.make(render_flavor(), render_cluster_queue(**queue), render_local_queue(), *more)

    def read(self, attempt: str) -> Json:
        """Return the status of an attempt, or an empty object if the attempt does not exist."""
        found: Json = self.stage.find(f"{ATTEMPTS}/{attempt}").get("status", {})
        return found

    def read_pipeline(self, name: str) -> Json:
        """Return the status of a pipeline."""
        found: Json = self.stage.find(f"{PIPELINES}/{name}").get("status", {})
        return found

    def wait_for_phase(self, attempt: str, phase: str) -> None:
        """Wait until an attempt is in a phase, and KubeRay reports the same state."""
        what = f"{attempt} {phase}"
        self.stage.wait_for(what, lambda: self.read(attempt).get("phase") == phase)
        # The driver may answer before KubeRay reports the job as running.
        if phase == "Running":
            self.wait_for_word(attempt, "jobStatus", "RUNNING")

    def wait_for_word(self, rayjob: str, field_name: str, word: str) -> None:
        """Wait until a field of a RayJob's status has the given value."""

        def is_so() -> bool:
            status = self.stage.find_rayjob(rayjob).get("status", {})
            return bool(status.get(field_name) == word)

        self.stage.wait_for(f"{rayjob} {word}", is_so)

    def wait_for_end(self, attempt: str, cause: str, words: str = "") -> None:
        """Wait until an attempt has ended with this cause, and its message contains these words."""
        self.stage.wait_for(f"{attempt} {cause}", lambda: self.read(attempt).get("cause") == cause)
        message = self.read(attempt).get("message", "")
        assert words in message, f"{attempt}: {message!r} does not say {words!r}"

    def wait_for_eviction(self, rayjob: str, reason: str) -> None:
        """Wait until Kueue has evicted a RayJob's workload, for a reason with this prefix."""

        def is_evicted() -> bool:
            return self.stage.read_condition(rayjob, "Evicted")[0].startswith(reason)

        self.stage.wait_for(f"eviction of {rayjob}: {reason}", is_evicted)

    def change(self, kind: str, name: str, **spec: Any) -> None:
        """Change the spec of an object as an administrator does."""
        self.stage.patch(f"{PLURALS[kind]}/{name}", {"spec": spec})

    def succeed(self, name: str, number: int = 1) -> None:
        """Complete an attempt's driver, and wait for the pipeline's success."""
        self.stage.finish(f"{name}-{number}")

        def is_over() -> bool:
            return bool(self.read_pipeline(name).get("phase") == "Succeeded")

        self.stage.wait_for(f"{name} Succeeded", is_over)

    def wait_for_pipeline(self, name: str, words: str) -> None:
        """Wait until a pipeline's status contains some words."""
        self.stage.wait_for(f"{name}: {words}", lambda: words in str(self.read_pipeline(name)))

    def count_failures(self, name: str) -> int:
        """Return the number of a pipeline's failed attempts, without disruptions."""
        retries: int = (self.read_pipeline(name).get("retries") or {}).get("retries", 0)
        return retries
