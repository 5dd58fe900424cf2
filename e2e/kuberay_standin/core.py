"""Makes all decisions: derives actions from the observed state of a RayJob.

This module does no I/O.
"""

from __future__ import annotations

from datetime import datetime

from kuberay_standin.rayclusters.steps import step_cluster
from kuberay_standin.rayjobs.steps import step_rayjob
from kuberay_standin.scene import Action, Draw, Scene


def step(scene: Scene, now: datetime, draw: Draw) -> list[Action]:
    """Return the actions to take now, in order.

    If the caller performs only some of them, the next observation leads to the rest. The list is
    empty if there is nothing to do until an object changes or a deadline passes.
    """
    return [*step_cluster(scene, now, draw), *step_rayjob(scene, now, draw)]
