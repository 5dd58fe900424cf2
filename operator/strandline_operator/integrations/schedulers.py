"""The list of schedulers, and what all of them together do to a RayJob.

No other module imports the package of a product: a new scheduler is a module and a line here.
"""

from __future__ import annotations

from collections.abc import Iterable

from strandline_api.spec.ray_cluster import RayCluster
from strandline_operator.integrations.batch_schedulers import BatchSchedulers
from strandline_operator.integrations.kueue.scheduler import Kueue
from strandline_operator.integrations.scheduler import Labels, Scheduler
from strandline_operator.model.objects import Meta

# Kueue may hold any RayJob, so it is last.
SCHEDULERS: tuple[Scheduler, ...] = (BatchSchedulers(), Kueue())


def label_rayjob(rayjob: str, ray: RayCluster, pipeline: Labels) -> dict[str, str]:
    """Return the labels that schedulers read from a RayJob."""
    return _merge(each.label_rayjob(rayjob, ray, pipeline) for each in SCHEDULERS)


def annotate_rayjob(pipeline: Labels) -> dict[str, str]:
    """Return the annotations that schedulers read from a RayJob."""
    return _merge(each.annotate_rayjob(pipeline) for each in SCHEDULERS)


def has_one_size(rayjob: Labels, annotations: Labels) -> bool:
    """Return whether a RayJob keeps the size at which a queue admits it."""
    return any(each.has_one_size(rayjob, annotations) for each in SCHEDULERS)


def names_queue(pipeline: Labels) -> bool:
    """Return whether a label of the pipeline itself is about its queue."""
    return any(each.queue_label in pipeline for each in SCHEDULERS)


def names_priority(pipeline: Labels) -> bool:
    """Return whether a label of the pipeline itself is about its priority in a queue."""
    return any(each.priority_label in pipeline for each in SCHEDULERS)


def has_queue(ray: RayCluster, pipeline: Labels) -> bool:
    """Return whether a queue decides when attempts of a pipeline start."""
    return bool(ray.queue_name or any(pipeline.get(each.queue_label) for each in SCHEDULERS))


def find_holder(rayjob: Meta) -> Scheduler:
    """Return the scheduler that suspends a RayJob."""
    return next(each for each in SCHEDULERS if each.holds(rayjob))


def list_names() -> tuple[str, ...]:
    """Return the names of all products."""
    return tuple(each.name for each in SCHEDULERS if each.name)


def list_kept_annotations() -> tuple[str, ...]:
    """Return the annotations of a pipeline that matter to schedulers."""
    return tuple(name for each in SCHEDULERS for name in each.kept_annotations)


def list_stop_reasons() -> frozenset[str]:
    """Return reasons of events whose message explains why a running RayJob was suspended."""
    return frozenset[str]().union(*(each.stop_reasons for each in SCHEDULERS))


def _merge(parts: Iterable[dict[str, str]]) -> dict[str, str]:
    return {name: value for part in parts for name, value in part.items()}
