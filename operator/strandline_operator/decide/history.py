"""Which ended attempts' objects go: those beyond the limit, and those past their time."""

from __future__ import annotations

from strandline_api.objects.pipeline import PipelineSpec
from strandline_operator.decide.plan_builder import Draft
from strandline_operator.model.plan import Delete, Resource


def trim_history(draft: Draft, spec: PipelineSpec) -> None:
    """Delete old attempts; the newest one always stays, and so does one that is not counted."""
    counted = draft.status.retries.through if draft.status.retries else 0
    ended = [
        one
        for one in draft.view.attempts[:-1]
        if one.spec.number <= counted and draft.status_of(one).is_frozen
    ]
    beyond = ended[: max(0, len(draft.view.attempts) - spec.attempt_history_limit)]
    longest = spec.ttl_after_finished_seconds
    for one in ended:
        end = draft.status_of(one).end_time
        is_past = False
        if longest is not None and end is not None:
            is_past = draft.now >= end + longest
            draft.wake(end + longest)
        if (one in beyond or is_past) and not one.meta.is_deleting:
            draft.actions.append(Delete(Resource.ATTEMPT, one.meta.name, one.meta.uid))
