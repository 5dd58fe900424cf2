"""All that is decided: from what is seen of a RayJob to what is done about it. Pure."""

from __future__ import annotations

from datetime import datetime

from kuberay_standin.rayclusters.steps import step_cluster
from kuberay_standin.rayjobs.steps import step_rayjob
from kuberay_standin.scene import Action, Draw, Scene


def step(scene: Scene, now: datetime, draw: Draw) -> list[Action]:
    """Return what is to be done now, in order.

    It may be done in part, or not at all: the next look leads to the rest. Where nothing is to be
    done the list is empty until something changes, or a deadline passes.
    """
    return [*step_cluster(scene, now, draw), *step_rayjob(scene, now, draw)]
