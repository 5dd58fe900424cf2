"""The claim that holds the ledger: made, or found wanting."""

from __future__ import annotations

from typing import NamedTuple

from strandline_api.causes import Cause
from strandline_api.names import name_claim
from strandline_api.pipeline import PipelineSpec
from strandline_api.reasons import Reason
from strandline_operator.decide.blocks import describe_refusal
from strandline_operator.decide.conditions import Truth
from strandline_operator.model.objects import Claim
from strandline_operator.model.plan import Create, Resource
from strandline_operator.model.view import View
from strandline_operator.render.attempt import render_claim

WRITABLE = frozenset({"ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany"})


class Storage(NamedTuple):
    """How the claim stands.

    Attributes:
        is_usable: an attempt may be made on it; one that waits for its first pod counts.
        truth: of the condition, and `message` its sentence.
        detail: what exactly, besides the reason's own words; empty where nothing waits for it.
        create: the action that makes it; None where there is nothing to make.
    """

    is_usable: bool
    truth: Truth
    reason: Reason
    message: str
    detail: str = ""
    create: Create | None = None


def examine_claim(view: View, spec: PipelineSpec) -> Storage:
    """What the pipeline's claim says."""
    given = spec.storage.ledger.claim_name
    name = given or name_claim(view.pipeline.meta.name)
    unread = next((one for one in view.unread if one.what == Resource.CLAIM), None)
    if unread is not None:
        denied = Reason.PERMISSION_DENIED
        said = describe_refusal(unread)
        return Storage(
            is_usable=False,
            truth="Unknown",
            reason=denied,
            message=denied.explain(said),
            detail=said,
        )
    claim = view.claim
    if claim is None:
        return _find_missing(view, name, is_given=given is not None)
    problem = _find_problem(view, claim)
    if problem is not None:
        return _say(problem, name, ", ".join(claim.modes))._replace(
            is_usable=problem is Reason.CLAIM_FULL
        )
    if claim.phase == "Bound":
        return Storage(
            is_usable=True,
            truth="True",
            reason=Reason.CLAIM_BOUND,
            message=f"claim {name} has a volume",
        )
    # Many classes bind a claim only when a pod asks for it, so this is no reason to wait.
    pending = Reason.CLAIM_PENDING.explain(f"claim {name}")
    return Storage(is_usable=True, truth="Unknown", reason=Reason.CLAIM_PENDING, message=pending)


def _find_problem(view: View, claim: Claim) -> Reason | None:
    if claim.meta.is_deleting:
        return Reason.CLAIM_DELETED
    if claim.phase == "Lost":
        return Reason.CLAIM_LOST
    if claim.modes and not WRITABLE & set(claim.modes):
        return Reason.CLAIM_NOT_WRITABLE
    is_unusable = view.pipeline.status.retry_cause is Cause.VOLUME_UNUSABLE
    return Reason.CLAIM_FULL if is_unusable and _is_full(view) else None


def _is_full(view: View) -> bool:
    """The last attempt ended because no space was left."""
    messages = [one.status.message for one in view.attempts[-1:]]
    return any("no space" in message for message in messages)


def _find_missing(view: View, name: str, *, is_given: bool) -> Storage:
    if is_given:
        return _say(Reason.CLAIM_MISSING, name)
    refused = next(
        (one for one in view.refusals if one.what == Resource.CLAIM and one.name == name), None
    )
    create = Create(Resource.CLAIM, render_claim(view.pipeline))
    if refused is not None:
        return _say(Reason.CLAIM_REFUSED, name, refused.message)._replace(create=create)
    return Storage(
        is_usable=False,
        truth="Unknown",
        reason=Reason.CLAIM_PENDING,
        message=f"claim {name} is being made",
        detail=f"claim {name} is being made",
        create=create,
    )


def _say(reason: Reason, name: str, detail: str = "") -> Storage:
    said = f"claim {name}: {detail}" if detail else f"claim {name}"
    return Storage(
        is_usable=False, truth="False", reason=reason, message=reason.explain(said), detail=said
    )
