"""Follows one pipeline from outside, as a user would after applying it.

Reads only what users can read: objects, events, and tables. This module must not depend on the
setup of the cluster or on the disturbances of the pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from proving_ground.cluster.kube import Json, Kube
from proving_ground.waiting import wait_for

PIPELINE, ATTEMPT = "curationpipelines", "curationattempts"
UID_LABEL = "strandline.dev/pipeline-uid"
ATTEMPT_LABEL = "strandline.dev/attempt"
ROLE_LABEL = "strandline.dev/role"
# Timeouts in seconds, so long that even a slow run on a busy machine ends in time.
END_SECONDS, FINISHED_SECONDS = 600, 400


@dataclass(frozen=True, slots=True)
class Story:
    """Follows the pipeline with this name, in the namespace of `kube`."""

    kube: Kube
    name: str

    def begin(self, manifest: Mapping[str, Any]) -> None:
        """Apply the pipeline."""
        self.kube.apply(manifest)

    @property
    def pipeline(self) -> Json:
        """The pipeline object."""
        found = self.kube.find(PIPELINE, self.name)
        assert found is not None, f"there is no pipeline {self.name}"
        return found

    @property
    def status(self) -> Json:
        """The pipeline's status; empty at first."""
        return dict(self.pipeline.get("status") or {})

    @property
    def attempts(self) -> list[Json]:
        """The pipeline's attempts, oldest first."""
        uid = self.pipeline["metadata"]["uid"]
        found = self.kube.list_all(ATTEMPT, f"{UID_LABEL}={uid}")
        return sorted(found, key=lambda attempt: int(attempt["spec"]["number"]))

    def attempt(self, number: int) -> Json:
        """Return an attempt."""
        return next(attempt for attempt in self.attempts if attempt["spec"]["number"] == number)

    def pods(self, role: str = "", number: int | None = None) -> list[Json]:
        """Return the pods, or only those with a role (head, worker) or of an attempt."""
        chosen = [f"{UID_LABEL}={self.pipeline['metadata']['uid']}"]
        if role:
            chosen.append(f"{ROLE_LABEL}={role}")
        if number is not None:
            chosen.append(f"{ATTEMPT_LABEL}={number}")
        return self.kube.list_all("pods", ",".join(chosen))

    def kill_head(self, number: int) -> None:
        """Force-delete the head pod of an attempt, as if its node were lost."""
        (head,) = self.pods("head", number)
        self.kube.delete("pod", head["metadata"]["name"], "--grace-period=0", "--force")

    def condition(self, type_: str) -> Json:
        """Return the pipeline's condition of this type, or an empty one if it is missing."""
        found = (
            condition
            for condition in self.status.get("conditions", [])
            if condition["type"] == type_
        )
        return next(found, {})

    def wait_until(self, what: str, is_so: Callable[[], Any], seconds: float) -> Any:
        """Wait for a condition. On a timeout, fail with a description of the pipeline."""
        return wait_for(f"{self.name}: {what}", is_so, seconds, self.describe)

    def wait_for_end(self, seconds: float = END_SECONDS) -> Json:
        """Wait until the run has succeeded or failed, and return the condition `Succeeded`."""

        def look() -> Json | None:
            condition = self.condition("Succeeded")
            return condition if condition.get("status") in {"True", "False"} else None

        return dict(self.wait_until("the end of the run", look, seconds))

    def wait_for_phase(self, number: int, phase: str, seconds: float) -> Json:
        """Wait until an attempt is in a phase, such as Running."""

        def look() -> Json | None:
            found = [attempt for attempt in self.attempts if attempt["spec"]["number"] == number]
            is_there = found and found[0].get("status", {}).get("phase") == phase
            return found[0] if is_there else None

        return dict(self.wait_until(f"attempt {number} is {phase}", look, seconds))

    def wait_for_finished(self, sources: int, seconds: float = FINISHED_SECONDS) -> None:
        """Wait until the status reports at least this many finished sources."""
        self.wait_until(
            f"{sources} sources are finished",
            lambda: (self.status.get("progress") or {}).get("finished", 0) >= sources,
            seconds,
        )

    def wait_for_cause(self, number: int, seconds: float) -> str:
        """Wait until an attempt's cause is final, and return the cause."""

        def look() -> str | None:
            found = [attempt for attempt in self.attempts if attempt["spec"]["number"] == number]
            status = found[0].get("status", {}) if found else {}
            return str(status.get("cause") or "Succeeded") if status.get("isFrozen") else None

        return str(self.wait_until(f"the cause of attempt {number}", look, seconds))

    def describe(self) -> str:
        """Describe everything that the pipeline's owner would read to analyze a failure."""
        command = (
            ("get", PIPELINE, self.name, "-o", "wide"),
            ("get", ATTEMPT, "-o", "wide"),
            ("get", "rayjobs,rayclusters,jobs,pods,pvc", "-o", "wide"),
            ("describe", PIPELINE, self.name),
            ("describe", ATTEMPT),
            ("get", "events", "--sort-by=.lastTimestamp"),
            ("logs", "-l", UID_LABEL, "--all-containers", "--prefix", "--tail=30"),
        )
        return "\n".join(self._try(*words) for words in command)

    def _try(self, *words: str) -> str:
        try:
            return f"$ kubectl {' '.join(words)}\n{self.kube.call(*words)}"
        except Exception as error:  # noqa: BLE001 - the teller must not fail
            return f"$ kubectl {' '.join(words)}\n{error}"
