"""What the next pass would see, where nothing but this one's own statuses has changed.

A status that was written comes back as an event. Mostly the pass that it asks for would find
nothing to do, and whether that is so can be told without one. This room must not choose anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from strandline_api.objects.attempt import AttemptStatus
from strandline_operator.cluster.api import Body
from strandline_operator.model.objects import Meta
from strandline_operator.model.plan import Plan
from strandline_operator.model.view import AttemptView, PipelineView, View
from strandline_operator.reconcile.enact import Enacted


def foresee(
    view: View,
    done: Enacted,
    read_pipeline: Callable[[Body], PipelineView],
    read_attempt: Callable[[Body], AttemptView | None],
) -> View:
    """The view with the statuses as the server has them now."""
    pipeline = view.pipeline if done.pipeline is None else read_pipeline(done.pipeline)
    bodies = done.attempts
    attempts = (
        (read_attempt(bodies[one.meta.name]) if one.meta.name in bodies else one)
        for one in view.attempts
    )
    return replace(
        view, pipeline=pipeline, attempts=tuple(one for one in attempts if one is not None)
    )


def is_foreseeable(plan: Plan, done: Enacted, view: View) -> bool:
    """Whether a pass has written statuses and nothing else, and met no obstacle.

    What is read beside the statuses depends on some of their fields, so where these have changed
    only a look tells what follows.
    """
    has_written = done.pipeline is not None or bool(done.attempts)
    is_smooth = done.is_written and done.error is None and not (done.refusals or view.refusals)
    before = {one.meta.name: one.status for one in view.attempts}
    is_same = all(
        _pick_turns(before[name]) == _pick_turns(status) for name, status in plan.attempts.items()
    )
    return has_written and is_smooth and is_same and not plan.actions


def _pick_turns(status: AttemptStatus) -> tuple[object, ...]:
    """What decides whom a pass asks: the driver and its log, RayJobs of others, or nobody."""
    return status.end_time, status.outcome, status.ray_job, status.is_frozen


def is_empty(plan: Plan) -> bool:
    """Whether there is nothing to do."""
    has_statuses = plan.pipeline is not None or bool(plan.attempts)
    return not (has_statuses or plan.actions or plan.events or plan.counts or plan.audit)


def list_versions(done: Enacted) -> frozenset[str]:
    """The versions that the written statuses have given their objects."""
    bodies = [*done.attempts.values(), *([done.pipeline] if done.pipeline else [])]
    return frozenset(Meta.read(body).version for body in bodies)
