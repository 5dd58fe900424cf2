"""The environment of one scenario: a namespace, volumes, and stages.

This module must not depend on the scenario.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from proving_ground.cluster.kube import Json, Kube, RefusedError
from proving_ground.cluster.volumes import Volume, make_volume, remove_volume
from proving_ground.commands import CONFIG, VOLUME, run_command
from proving_ground.installation.chart import Installation
from proving_ground.pipelines import HOLD, OPENED, render_pipeline, render_stages
from proving_ground.story import Story
from proving_ground.waiting import wait_for

DELETION_SECONDS = 180
WHERE = (f"{CONFIG}/pipeline.yaml", "--volume", VOLUME)


@dataclass(frozen=True, slots=True)
class Resumption:
    """How a second attempt resumed after the first.

    Attributes:
        finished: sources that the first attempt finished, according to the ledger.
        first, second: sources that each attempt opened, according to the stages' log.
    """

    finished: frozenset[str]
    first: frozenset[str]
    second: frozenset[str]

    @property
    def lost(self) -> frozenset[str]:
        """Sources that both attempts worked on."""
        return self.first & self.second


@dataclass(frozen=True, slots=True)
class Ground:
    """A namespace with two bound claims and the scenarios' stages.

    Attributes:
        ledger, output: claims, and the folders behind them.
        metrics: metrics of the operator at the beginning.
        operator: uid of the operator's pod that served `metrics`. A new pod's counters start at 0.
    """

    kube: Kube
    installation: Installation
    ledger: Volume
    output: Volume
    metrics: Mapping[str, float]
    operator: str

    def begin(
        self,
        name: str,
        *,
        count: int = 40,
        stages: Sequence[Mapping[str, Any]] = (),
        env: Mapping[str, str] = MappingProxyType({}),
        spec: Mapping[str, Any] | None = None,
        finished: int = 0,
    ) -> Story:
        """Apply a pipeline over numbered sources that writes to the ground's volumes.

        Args:
            name, count, stages, env, spec: arguments of `render_pipeline`.
            finished: number of finished sources to wait for before returning.
        """
        story = Story(self.kube, name)
        ledger, output = self.ledger.claim, self.output.claim
        story.begin(
            render_pipeline(
                name, ledger=ledger, output=output, count=count, stages=stages, env=env, spec=spec
            )
        )
        if finished:  # 0 for a pipeline that is expected not to start
            story.wait_for_finished(finished)
        return story

    @contextmanager
    def held(self) -> Iterator[None]:
        """Block all tasks of `tide:Work`, so that a run can't end before a disturbance.

        On an existing cluster, tasks are not blocked, because its folders can't be reached.
        """
        folder = self.output.folder
        if folder is None:
            yield
            return
        (folder / HOLD).touch()
        try:
            yield
        finally:
            (folder / HOLD).unlink()

    def render(self, name: str) -> Json:
        """Return a pipeline on the ground's volumes. Callers may change it before applying it."""
        return render_pipeline(name, ledger=self.ledger.claim, output=self.output.claim)

    @property
    def runtime_image(self) -> str:
        """The image of Ray pods."""
        return self.installation.runtime_image

    def count_metric(self, name: str) -> float:
        """Return the growth of one of the operator's metrics since the beginning."""
        is_same = self.installation.operator_pod["metadata"]["uid"] == self.operator
        before = self.metrics.get(name, 0) if is_same else 0
        return self.installation.read_metrics().get(name, 0) - before

    def verify(self, story: Story) -> str:
        """Run `strandline verify` in a pod that mounts the volumes as the head did."""
        return self._run(["strandline", "verify", *WHERE], _last_config(story))

    def look_back(self, story: Story) -> Resumption:
        """Return how the second attempt of a finished run resumed after the first."""
        command = ["strandline", "ledger", "export", *WHERE, "--state", "finished"]
        lines = map(json.loads, self._run(command, _last_config(story)).splitlines())
        finished = frozenset(line["key"] for line in lines if line["attempt"] == 1)
        first, second = (self._list_opened(attempt) for attempt in (1, 2))
        return Resumption(finished, first, second)

    @property
    def opened(self) -> Counter[tuple[int, str]]:
        """Number of times that each attempt opened each source, by attempt and key."""
        lines = (line.split("\t") for line in self._read_log().splitlines())
        return Counter((int(attempt), key) for attempt, key in lines)

    def _list_opened(self, attempt: int) -> frozenset[str]:
        return frozenset(key for number, key in self.opened if number == attempt)

    def _read_log(self) -> str:
        if self.output.folder is None:
            return self._run(["/bin/sh", "-c", f"test ! -e {OPENED} || cat {OPENED}"])
        path = self.output.folder / Path(OPENED).name
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def _run(self, command: list[str], config: str = "") -> str:
        claims = (self.ledger.claim, self.output.claim)
        return run_command(self.kube, self.runtime_image, claims, command, config)


@contextmanager
def prepare_ground(kube: Kube, installation: Installation, namespace: str) -> Iterator[Ground]:
    """Create a namespace with everything that a scenario needs, and remove it afterwards."""
    root = installation.node.volumes if installation.node else None
    cluster = kube.within(namespace)
    if kube.find("namespace", namespace) is not None:
        _clear(kube, namespace)
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    kube.apply(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": namespace, "labels": labels},
        }
    )
    cluster.apply(render_stages())
    ledger = make_volume(cluster, "ledger", root)
    output = make_volume(cluster, "output", root)
    try:
        operator = installation.operator_pod["metadata"]["uid"]
        numbers = installation.read_metrics()
        yield Ground(cluster, installation, ledger, output, numbers, operator)
    finally:
        _clear(kube, namespace)
        for volume in (ledger, output):
            remove_volume(cluster, volume.claim, root)


def _last_config(story: Story) -> str:
    return str(story.attempts[-1]["metadata"]["name"])


def _clear(kube: Kube, namespace: str) -> None:
    kube.delete("namespace", namespace)

    def is_gone() -> bool:
        try:
            return kube.find("namespace", namespace) is None
        except RefusedError:
            return False

    wait_for(f"namespace {namespace} is gone", is_gone, DELETION_SECONDS, lambda: _describe(kube))


def _describe(kube: Kube) -> str:
    return kube.call("get", "all", "-A")
