"""The list of schedulers, and functions that combine them.

Only this module imports the packages of products. A new scheduler needs a module and an entry in
the list.
"""

from __future__ import annotations

from strandline_api.spec.ray_cluster import RayCluster
from strandline_operator.integrations.batch_schedulers import BatchSchedulers
from strandline_operator.integrations.kueue.scheduler import Kueue
from strandline_operator.integrations.scheduler import Labels, Scheduler
from strandline_operator.model.objects import Meta

# Kueue is last: if it manages all jobs, it may hold a RayJob without any label, so it matches all.
SCHEDULERS: tuple[Scheduler, ...] = (BatchSchedulers(), Kueue())


def label_rayjob(rayjob: str, ray: RayCluster, pipeline: Labels) -> dict[str, str]:
    """Return the labels of a RayJob that schedulers use."""
    parts = (each.label_rayjob(rayjob, ray, pipeline) for each in SCHEDULERS)
    return {name: value for part in parts for name, value in part.items()}


def annotate_rayjob(pipeline: Labels) -> dict[str, str]:
    """Return the annotations of a RayJob that a scheduler may resize.

    Empty if the size is fixed.
    """
    return {name: "true" for name in list_annotations() if pipeline.get(name) == "true"}


def list_annotations() -> tuple[str, ...]:
    """Return the annotations of a pipeline that schedulers use."""
    return tuple(each.resize_annotation for each in SCHEDULERS if each.resize_annotation)


def names_queue(labels: Labels) -> bool:
    """Return True if a label of a pipeline or a RayJob names a queue."""
    return any(each.queue_label in labels for each in SCHEDULERS)


def names_priority(labels: Labels) -> bool:
    """Return True if a label of a pipeline names a priority in a queue."""
    return any(each.priority_label in labels for each in SCHEDULERS)


def has_queue(ray: RayCluster, pipeline: Labels) -> bool:
    """Return True if a queue decides when attempts of a pipeline start."""
    return bool(ray.queue_name or any(pipeline.get(each.queue_label) for each in SCHEDULERS))


def find_holder(rayjob: Meta) -> Scheduler:
    """Return the scheduler that may suspend a RayJob."""
    *others, last = SCHEDULERS
    return next((each for each in others if each.holds(rayjob)), last)


def list_names() -> tuple[str, ...]:
    """Return the names of all schedulers."""
    return tuple(each.name for each in SCHEDULERS if each.name)


def list_stop_reasons() -> frozenset[str]:
    """Return event reasons whose message explains why a running RayJob was suspended."""
    return frozenset[str]().union(*(each.stop_reasons for each in SCHEDULERS))
