"""Simulates an operator with delayed watches and a slow KubeRay.

Each step is drawn at random: a pass, some events of one kind, a step of KubeRay or of garbage
collection, an end, an edit, or a restart. After every step the test checks that two attempts never
have pods at the same time, that an attempt with a final end has no pods, and that the operator
creates nothing for a suspended pipeline.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import Any

from fake_api import Call, FakeApi
from fake_store import FakeStore
from kuberay_standin.rayjobs.steps import FINALIZER
from operator_bodies import KEY, NAMESPACE, Body, make_pipeline
from played_operator import Operator
from strandline_api.names import ATTEMPT_LABEL
from strandline_operator.cluster.errors import ApiError
from strandline_operator.model.limits import Limits
from strandline_operator.model.plan import Resource

RETRY = {"jitter": "none", "backoff": "fixed", "delay": "1s", "maxRetries": 5}
# Probability that a garbage collection step removes a pod. The value is small, so that the next
# attempt often becomes due while old pods remain.
SLOW = 0.03


class LateCluster:
    """A pipeline, its operator, and KubeRay.

    Args:
        lateness: share of steps in which a watch delivers almost none of the pending events, from 0
            to 1.
    """

    def __init__(self, seed: int, lateness: float) -> None:
        self.drawn = random.Random(seed)
        self.lateness = lateness
        self.api = FakeApi(FakeStore(time=1_000_000.0))
        self.operator = Operator(self.api, Limits())
        self.api.store.patient.add(Resource.POD)
        self.restarts = 0
        self.silent: Resource | None = None
        self.api.before.append(self._check)
        make_pipeline(self.api.store, retry=RETRY)

    @property
    def store(self) -> FakeStore:
        return self.api.store

    @property
    def numbers(self) -> set[str]:
        """Return the numbers of attempts with pods."""
        pods = self.store.list(Resource.POD)
        return {pod["metadata"]["labels"][ATTEMPT_LABEL] for pod in pods}

    @property
    def final(self) -> set[str]:
        """Return the numbers of attempts whose statuses are frozen."""
        attempts = self.store.list(Resource.ATTEMPT)
        frozen = [each for each in attempts if each.get("status", {}).get("isFrozen")]
        return {str(attempt["spec"]["number"]) for attempt in frozen}

    def count_made(self, resource: Resource) -> dict[str, int]:
        """Count the objects that were created under each name."""
        uids: dict[str, set[str]] = {}
        for change in self.store.history:
            if change.resource is resource:
                metadata = change.body["metadata"]
                uids.setdefault(metadata["name"], set()).add(metadata["uid"])
        return {name: len(found) for name, found in uids.items()}

    def play(self, steps: int) -> None:
        for _ in range(steps):
            self.store.time += self.drawn.choice((0.0, 0.5, 5.0))
            self.drawn.choice(self._list_steps())()
            assert len(self.numbers) <= 1, self.numbers
            assert not self.numbers & self.final, self.numbers

    def _check(self, call: Call) -> None:
        """Check that the operator creates no object while the server's pipeline is suspended."""
        if call.verb == "create" and call.resource in {Resource.ATTEMPT, Resource.RAYJOB}:
            (pipeline,) = self.store.list(Resource.PIPELINE)
            assert not pipeline["spec"].get("suspend"), call

    def _list_steps(self) -> list[Callable[[], object]]:
        work = [self.pass_once] * 8 + [self.show] * 8 + [self.work] * 8 + [self.collect] * 3
        rest = [self.end_job, self.end_job, self.lose_pod, self.suspend, self.restart]
        return [*work, *rest, self.silence, self.relist]

    def pass_once(self) -> None:
        try:
            asyncio.run(self.operator.passes.run(KEY))
        except ApiError:
            return

    def show(self) -> None:
        feed = self.operator.feed
        if self.drawn.random() < self.lateness:
            feed.stream(self.drawn.choice(feed.kinds), self.drawn.randrange(3))
        else:
            feed.follow(self.silent)

    def silence(self) -> None:
        """Silence the stream of one kind, or end the silence."""
        self.silent = self.drawn.choice(
            (*self.operator.feed.kinds, Resource.POD, Resource.POD, None)
        )

    def relist(self) -> None:
        self.operator.feed.list(self.drawn.choice(self.operator.feed.kinds))

    def restart(self) -> None:
        if self.drawn.random() < 0.2:
            self.restarts += 1
            self.operator = Operator(self.api, Limits())

    def suspend(self) -> None:
        """Suspend the pipeline, or resume it."""
        (pipeline,) = self.store.list(Resource.PIPELINE)
        is_held = bool(pipeline["spec"].get("suspend"))
        if is_held or self.drawn.random() < 0.3:
            patch = {"spec": {"suspend": not is_held}}
            self.store.patch(Resource.PIPELINE, NAMESPACE, "corpus", patch)

    def end_job(self) -> None:
        """End the driver, usually with a failure."""
        for job in self._list_jobs("RUNNING"):
            is_bad = self.drawn.random() < 0.9
            self._put(job, *(("FAILED", "Failed") if is_bad else ("SUCCEEDED", "Complete")))

    def lose_pod(self) -> None:
        pods = self.store.list(Resource.POD)
        if pods and self.drawn.random() < 0.2:
            self.store.remove(Resource.POD, NAMESPACE, self.drawn.choice(pods)["metadata"]["name"])

    def work(self) -> None:
        """Advance KubeRay by one step for each RayJob."""
        for job in self.store.list(Resource.RAYJOB):
            next(self._advance(job), None)

    def collect(self) -> None:
        """Garbage-collect one object whose owner is gone."""
        jobs = {job["metadata"]["name"] for job in self.store.list(Resource.RAYJOB)}
        clusters = [each["metadata"]["name"] for each in self.store.list(Resource.RAYCLUSTER)]
        for name in [name for name in clusters if name not in jobs][:1]:
            return self.store.remove(Resource.RAYCLUSTER, NAMESPACE, name)
        for pod in self.store.list(Resource.POD):
            name = pod["metadata"]["name"]
            if name.split("-0.")[0] not in clusters and self.drawn.random() < SLOW:
                return self.store.remove(Resource.POD, NAMESPACE, name)
        return None

    def _advance(self, job: Body) -> Iterator[object]:
        """Yield after each of the RayJob's remaining steps."""
        metadata, name = job["metadata"], job["metadata"]["name"]
        if "deletionTimestamp" in metadata:
            # Garbage collection removes the dependents later.
            patch: Body = {"metadata": {"finalizers": []}}
            yield self.store.patch(Resource.RAYJOB, NAMESPACE, name, patch)
            return
        clusters = self._list_mine(Resource.RAYCLUSTER, job)
        if FINALIZER not in metadata.get("finalizers", ()):
            patch = {"metadata": {"finalizers": [FINALIZER]}}
            yield self.store.patch(Resource.RAYJOB, NAMESPACE, name, patch)
        if job.get("status", {}).get("jobStatus", "RUNNING") != "RUNNING":
            return
        if not clusters:
            yield self._make(Resource.RAYCLUSTER, name, job)
        if not self._list_mine(Resource.POD, job):
            yield self._make(Resource.POD, f"{name}-{self.drawn.random()}-head", job)
        if not job.get("status"):
            self._put(job, "RUNNING", "Running")

    def _list_jobs(self, word: str) -> list[Body]:
        jobs = self.store.list(Resource.RAYJOB)
        return [job for job in jobs if job.get("status", {}).get("jobStatus") == word]

    def _list_mine(self, resource: Resource, job: Body) -> list[Body]:
        number = job["metadata"]["labels"][ATTEMPT_LABEL]
        selector = f"{ATTEMPT_LABEL}={number}"
        return self.store.list(resource, NAMESPACE, selector)

    def _make(self, resource: Resource, name: str, job: Body) -> Body:
        head = job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["metadata"]
        is_pod = resource is Resource.POD
        labels = head["labels"] if is_pod else job["metadata"]["labels"]
        body: dict[str, Any] = {"metadata": {"name": name, "labels": labels}}
        if is_pod:
            body["status"] = {"phase": "Running"}
        return self.store.create(resource, NAMESPACE, body)

    def _put(self, job: Body, word: str, deployment: str) -> None:
        status = {"jobStatus": word, "jobDeploymentStatus": deployment}
        self.store.put_status(Resource.RAYJOB, NAMESPACE, job["metadata"]["name"], status)
