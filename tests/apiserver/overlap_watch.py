"""Watches a server for a forbidden state: two attempts of one pipeline with pods.

    with OverlapWatch(server.kubeconfig) as watch:
        ...
        watch.catch_up()
        watch.overlaps          # sentences with names and times; empty without overlaps

The watch has its own streams. An object lives from the version that created it to the version that
removed it. The versions of all kinds are in one sequence, so the order of the streams does not
matter. Attempts are distinguished by the labels on their pods, and RayJobs by ownership. The module
must not depend on the operator.
"""

from __future__ import annotations

import http.client
import itertools
import math
import secrets
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Self

from kube_client import KubeClient, Refusal, spell_path
from recordings import Json
from strandline_api.names import ATTEMPT_LABEL, PIPELINE_UID_LABEL, select_all
from waiting import wait_until

# Pods, and the kinds of objects that own pods.
KINDS = ("CurationAttempt", "RayJob", "RayCluster", "Job", "Pod")
PAUSE = 0.05


@dataclass(slots=True)
class Life:
    """The lifetime of a pod or an owner, from its first to its last version."""

    kind: str
    uid: str
    name: str
    owner: str
    labels: Json
    begin: int
    begin_time: datetime
    end: float = math.inf
    end_time: datetime | None = None

    def __str__(self) -> str:
        """Return the kind, name, attempt, and lifetime."""
        until = f"{self.end_time:%H:%M:%S.%f}" if self.end_time else "now"
        number = self.labels.get(ATTEMPT_LABEL)
        return (
            f"{self.kind} {self.name} of attempt {number}"
            f" ({self.begin_time:%H:%M:%S.%f} to {until})"
        )


@dataclass(slots=True)
class OverlapWatch:
    """Watches the server for overlaps. See the module's docstring."""

    kubeconfig: Path
    lives: dict[str, Life] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    _clients: list[KubeClient] = field(default_factory=list)
    _threads: list[Thread] = field(default_factory=list)
    _is_closed: bool = False

    def __enter__(self) -> Self:
        """Start with the existing objects."""
        for kind in KINDS:
            client = KubeClient(self.kubeconfig)
            version = self._list(client, kind)
            self._clients.append(client)
            thread = Thread(target=self._follow, args=(client, kind, version), name=kind)
            self._threads.append(thread)
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed = True
        for client in self._clients:
            client.abort()
        for thread in self._threads:
            thread.join()
        for client in self._clients:
            client.close()

    @property
    def overlaps(self) -> dict[tuple[str, str], str]:
        """The forbidden overlaps so far: a sentence for each pair of pod uids."""
        pods: dict[str, list[Life]] = {}
        for life in sorted(self.lives.values(), key=lambda one: one.begin):
            if life.kind == "Pod":
                pods.setdefault(life.labels[PIPELINE_UID_LABEL], []).append(life)
        return dict(pair for lives in pods.values() for pair in self._list_overlaps(lives))

    def _list_overlaps(self, pods: list[Life]) -> Iterator[tuple[tuple[str, str], str]]:
        for one, other in itertools.combinations(pods, 2):
            attempts = {life.labels.get(ATTEMPT_LABEL) for life in (one, other)}
            rayjobs = {self._find_rayjob(life) for life in (one, other)} - {""}
            if other.begin < one.end and (len(attempts) > 1 or len(rayjobs) > 1):
                yield (one.uid, other.uid), f"{one} and {other} of RayJobs {sorted(rayjobs)}"

    def list_overlaps(self, namespace: str) -> list[str]:
        """Return the sentences about overlaps in a namespace."""
        return [text for text in self.overlaps.values() if f" {namespace}/" in text]

    def _find_rayjob(self, life: Life) -> str:
        """Return the uid of a pod's RayJob, or an empty string."""
        owner = self.lives.get(life.owner)
        while owner is not None and owner.kind != "RayJob":
            owner = self.lives.get(owner.owner)
        return owner.uid if owner else ""

    def list_names(self, kind: str, namespace: str) -> dict[str, int]:
        """Return how many objects of a kind had each name."""
        names: dict[str, int] = {}
        for life in list(self.lives.values()):
            place, _, name = life.name.partition("/")
            if (life.kind, place) == (kind, namespace):
                names[name] = names.get(name, 0) + 1
        return names

    def catch_up(self) -> None:
        """Wait until the watch has received all events so far. Fail if a stream was lost."""
        uid = self._show_itself()
        wait_until(lambda: bool(self.errors) or not math.isinf(self._end_of(uid)))
        assert self.errors == [], "; ".join(self.errors)

    def _end_of(self, uid: str) -> float:
        return self.lives[uid].end if uid in self.lives else math.inf

    def _show_itself(self) -> str:
        """Create and remove a pod that never runs, and return its uid to look for in the stream."""
        name = f"overlap-watch-{secrets.token_hex(4)}"
        labels = {PIPELINE_UID_LABEL: name, ATTEMPT_LABEL: "1"}
        spec: Json = {"containers": [{"name": "none", "image": "none.invalid/none"}]}
        spec["schedulingGates"] = [{"name": "strandline.dev/never"}]
        metadata = {"name": name, "labels": labels}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        with closing(KubeClient(self.kubeconfig)) as client:
            uid: str = client.create(pod, "default")["metadata"]["uid"]
            client.delete("Pod", name, "default", grace=0)
        return uid

    def _list(self, client: KubeClient, kind: str) -> str:
        answer = client.ask("GET", spell_path(kind), query=select(kind))
        for body in answer["items"]:
            self._see(kind, "ADDED", body)
        return str(answer["metadata"]["resourceVersion"])

    def _follow(self, client: KubeClient, kind: str, version: str) -> None:
        """Read a stream and reconnect from the last version, until the watch is closed."""
        while not self._is_closed:
            try:
                for event in client.watch(kind, version, **select(kind)):
                    version = event["object"]["metadata"]["resourceVersion"]
                    self._see(kind, event["type"], event["object"])
            except (OSError, http.client.HTTPException, ValueError, KeyError, Refusal) as error:
                if not self._is_closed:
                    self.errors.append(f"the stream of {kind} was lost: {error!r}")
                return
            time.sleep(PAUSE)

    def _see(self, kind: str, change: str, body: Json) -> None:
        metadata, now = body["metadata"], datetime.now(UTC)
        version = int(metadata["resourceVersion"])
        if change == "ADDED":
            owners = [reference["uid"] for reference in metadata.get("ownerReferences", ())]
            owner = owners[0] if owners else ""
            name = f"{metadata['namespace']}/{metadata['name']}"
            labels = metadata.get("labels", {})
            life = Life(kind, metadata["uid"], name, owner, labels, version, now)
            self.lives[metadata["uid"]] = life
        elif change == "DELETED":
            with suppress(KeyError):
                life = self.lives[metadata["uid"]]
                life.end, life.end_time = version, now


def select(kind: str) -> Json:
    """Return the watch's selector: only the operator's pods, and all objects of other kinds."""
    return {"labelSelector": select_all()} if kind == "Pod" else {}
