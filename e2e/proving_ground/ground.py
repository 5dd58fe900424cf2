"""The ground on which one scenario is played: a namespace of its own, volumes, stages.

This room must not know what is played.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proving_ground.commands import run_command
from proving_ground.installation import Installation
from proving_ground.kube import Json, Kube, RefusedError
from proving_ground.pipelines import render_pipeline, render_stages
from proving_ground.story import Story
from proving_ground.volumes import Volume, make_volume
from proving_ground.waiting import wait_for

DELETION_SECONDS = 180


@dataclass(frozen=True, slots=True)
class Ground:
    """A namespace with two bound claims, and the stages of the scenarios in it.

    Attributes:
        ledger, output: claims, and the folders behind them.
    """

    kube: Kube
    installation: Installation
    ledger: Volume
    output: Volume

    def begin(
        self,
        name: str,
        *,
        count: int = 40,
        stages: Sequence[Mapping[str, Any]] = (),
        workers: int = 1,
        spec: Mapping[str, Any] | None = None,
    ) -> Story:
        """Apply a pipeline over numbered sources; it writes to the volumes of the ground."""
        story = Story(self.kube, name)
        story.begin(self.render(name, count=count, stages=stages, workers=workers, spec=spec))
        return story

    def render(
        self,
        name: str,
        *,
        count: int = 40,
        stages: Sequence[Mapping[str, Any]] = (),
        workers: int = 1,
        spec: Mapping[str, Any] | None = None,
    ) -> Json:
        """Such a pipeline."""
        return render_pipeline(
            name,
            ledger=self.ledger.claim,
            output=self.output.claim,
            count=count,
            stages=stages,
            workers=workers,
            spec=spec,
        )

    @property
    def runtime_image(self) -> str:
        """The image of Ray pods."""
        return self.installation.runtime_image

    def verify(self, story: Story) -> str:
        """What `strandline verify` says, in a pod that has the volumes as the head had them."""
        attempt = story.attempts[-1]["metadata"]["name"]
        return run_command(
            self.kube, self.runtime_image, attempt, self.ledger.claim, self.output.claim, "verify"
        )

    def opened_again(self, first: int, then: int) -> set[str]:
        """Sources that both attempts have opened."""
        opened = self.output.opened
        return {key for number, key in opened if number == first} & {
            key for number, key in opened if number == then
        }


@contextmanager
def lay_ground(kube: Kube, installation: Installation, namespace: str) -> Iterator[Ground]:
    """Make a namespace with all that a scenario needs, and remove it afterwards."""
    root = installation.volumes
    cluster = kube.within(namespace)
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
        yield Ground(cluster, installation, ledger, output)
    finally:
        _clear(kube, namespace)


def _clear(kube: Kube, namespace: str) -> None:
    kube.delete("namespace", namespace)

    def is_gone() -> bool:
        try:
            return kube.find("namespace", namespace) is None
        except RefusedError:
            return False

    wait_for(f"namespace {namespace} is gone", is_gone, DELETION_SECONDS, lambda: _tell(kube))


def _tell(kube: Kube) -> str:
    return kube.say("get", "all", "-A")


def find_folder(name: str) -> Path:
    """A folder of the repository, for what is kept."""
    return Path(__file__).parents[2] / name
