"""Examines the ledger's claim (creation, size, problems), and claims for which pods wait."""

from __future__ import annotations

from typing import NamedTuple

from strandline_api.names import MANAGED_BY_LABEL, MANAGER, name_claim
from strandline_api.notation.quantities import parse_memory
from strandline_api.objects.pipeline import PipelineSpec
from strandline_api.outcome.causes import Cause
from strandline_api.status.reasons import ConditionType, Reason
from strandline_operator.decide.conditions import Truth
from strandline_operator.decide.obstacles.obstacles import Block, describe_refusal
from strandline_operator.decide.obstacles.room.findings import CLAIMS, is_unplaced
from strandline_operator.decide.obstacles.room.shortages import find_group
from strandline_operator.decide.scene import Scene
from strandline_operator.model.objects import Pod, VolumeClaim, list_mounted, read_mapping
from strandline_operator.model.plan import Create, Grow, Resource
from strandline_operator.model.view import View
from strandline_operator.render.attempt import render_claim

WRITABLE = frozenset({"ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany"})
# Annotation of a claim whose volume has to be created for the node that the scheduler chose.
_SELECTED_NODE = "volume.kubernetes.io/selected-node"


class ClaimVerdict(NamedTuple):
    """State of a claim.

    Attributes:
        is_usable: whether an attempt may use the claim. An unbound claim that binds to its first
            pod is usable.
        truth: status of the condition.
        reason: reason of the condition.
        message: message of the condition.
        detail: details of the obstacle; empty if no attempt has to wait.
        action: action that creates or enlarges the claim, or None.
    """

    is_usable: bool
    truth: Truth
    reason: Reason
    message: str
    detail: str = ""
    action: Create | Grow | None = None


def examine_claim(view: View, spec: PipelineSpec) -> ClaimVerdict:
    """Return the state of the ledger's claim."""
    facts = spec.storage.ledger.claim_name
    name = facts or name_claim(view.pipeline.meta.name)
    unread = next((refusal for refusal in view.unread if refusal.what == Resource.CLAIM), None)
    # An unreadable claim may exist, so the operator must not create a second claim.
    if unread is not None:
        denied = Reason.PERMISSION_DENIED
        outcome = describe_refusal(unread)
        return ClaimVerdict(
            is_usable=False,
            truth="Unknown",
            reason=denied,
            message=denied.explain(outcome),
            detail=outcome,
        )
    claim = view.claim
    if claim is None:
        return _find_missing(view, name, is_given=facts is not None)
    is_unusable = view.pipeline.status.retry_cause is Cause.VOLUME_UNUSABLE
    verdict = judge_claim(claim, name)
    # Report a full claim, but do not block retries, which succeed once a user frees space.
    if verdict.is_usable and is_unusable and _is_full(view):
        full = describe_problem(Reason.CLAIM_FULL, name, ", ".join(claim.modes))
        verdict = full._replace(is_usable=True)
    # Only users enlarge claims that they created.
    is_ours = claim.meta.labels.get(MANAGED_BY_LABEL) == MANAGER
    return _compare(view, spec, claim, verdict) if is_ours and verdict.is_usable else verdict


def _compare(
    view: View, spec: PipelineSpec, claim: VolumeClaim, verdict: ClaimVerdict
) -> ClaimVerdict:
    """Compare the size of a claim with the requested size."""
    size, has = spec.storage.ledger.size, claim.requested
    # Only a bound claim can be resized, and a spec without a size requests no change.
    if size is None or claim.phase != "Bound" or not has:
        return verdict
    difference = _measure(str(size)) - _measure(has)
    if difference > 0:
        return _grow(view, claim, str(size), verdict)
    # Kubernetes can't shrink a claim and would reject the request in every pass.
    if difference < 0:
        return verdict._replace(
            message=f"{verdict.message} of {has}, which cannot shrink to {size}"
        )
    if claim.capacity and _measure(claim.capacity) < _measure(has):
        way = f"grows from {claim.capacity} to {has}"
        why = f": {claim.resizing}" if claim.resizing else ""
        return verdict._replace(message=f"{verdict.message}, which {way}{why}")
    return verdict


def _grow(view: View, claim: VolumeClaim, size: str, verdict: ClaimVerdict) -> ClaimVerdict:
    """Request more storage. After a rejection, wait for an edit, because retries would fail too."""
    pipeline, name = view.pipeline, claim.meta.name
    condition = pipeline.status.find_condition(ConditionType.STORAGE_READY)
    is_known = condition is not None and condition.reason == Reason.CLAIM_NOT_GROWN
    if (
        condition is not None
        and is_known
        and condition.observed_generation == pipeline.meta.generation
    ):
        return verdict._replace(
            truth="False", reason=Reason.CLAIM_NOT_GROWN, message=condition.message
        )
    refused = (
        refusal.message
        for refusal in view.refusals
        if refusal.what == Resource.CLAIM and refusal.name == name
    )
    why = next(refused, None)
    # The server has not rejected this size.
    if why is None:
        message = f"{verdict.message}; a resize to {size} is requested"
        return verdict._replace(message=message, action=Grow(name, claim.meta.uid, size))
    detail = f"{claim.requested} instead of {size}: {why}"
    return describe_problem(Reason.CLAIM_NOT_GROWN, name, detail)._replace(is_usable=True)


def _measure(size: str) -> int:
    """Return a size in bytes, or 0 if the size is invalid."""
    try:
        return parse_memory(size)
    except ValueError:
        return 0


def judge_claim(claim: VolumeClaim, name: str) -> ClaimVerdict:
    """Return the state of an existing claim.

    Args:
        name: name of the claim in messages.
    """
    problem = _find_problem(claim)
    if problem is not None:
        return describe_problem(problem, name, ", ".join(claim.modes))
    if claim.phase == "Bound":
        return ClaimVerdict(
            is_usable=True,
            truth="True",
            reason=Reason.CLAIM_BOUND,
            message=f"claim {name} has a volume",
        )
    # Many storage classes bind a claim only when a pod uses it, so do not wait for a bound claim.
    pending = Reason.CLAIM_PENDING.explain(f"claim {name}")
    return ClaimVerdict(
        is_usable=True, truth="Unknown", reason=Reason.CLAIM_PENDING, message=pending
    )


def _find_problem(claim: VolumeClaim) -> Reason | None:
    # If a pod mounted a claim during its deletion, the deletion would never finish.
    if claim.meta.is_deleting:
        return Reason.CLAIM_DELETED
    if claim.phase == "Lost":
        return Reason.CLAIM_LOST
    is_writable = not claim.modes or bool(WRITABLE & set(claim.modes))
    return None if is_writable else Reason.CLAIM_NOT_WRITABLE


def _is_full(view: View) -> bool:
    """Return True if the last attempt ended because the disk was full."""
    messages = [attempt.status.message for attempt in view.attempts[-1:]]
    return any("no space" in message for message in messages)


def _find_missing(view: View, name: str, *, is_given: bool) -> ClaimVerdict:
    # A claim that the spec names must be created by the user, because the spec has no class or size
    # for it.
    if is_given:
        return describe_problem(Reason.CLAIM_MISSING, name)
    refused = next(
        (
            refusal
            for refusal in view.refusals
            if refusal.what == Resource.CLAIM and refusal.name == name
        ),
        None,
    )
    create = Create(Resource.CLAIM, render_claim(view.pipeline))
    # Request a rejected claim again, because the quota may allow it by now.
    if refused is not None:
        return describe_problem(Reason.CLAIM_REFUSED, name, refused.message)._replace(action=create)
    return ClaimVerdict(
        is_usable=False,
        truth="Unknown",
        reason=Reason.CLAIM_PENDING,
        message=f"claim {name} is being created",
        detail=f"claim {name} is being created",
        action=create,
    )


def describe_problem(reason: Reason, name: str, detail: str = "") -> ClaimVerdict:
    """Return the state of a claim that has a problem, which blocks attempts."""
    outcome = f"claim {name}: {detail}" if detail else f"claim {name}"
    return ClaimVerdict(
        is_usable=False,
        truth="False",
        reason=reason,
        message=reason.explain(outcome),
        detail=outcome,
    )


def is_unbound(pod: Pod) -> bool:
    """Return True if a pod waits for a claim without a volume. A new node would not help."""
    words = pod.unschedulable
    return is_unplaced(pod) and not is_held(pod) and CLAIMS.search(words) is not None


def is_held(pod: Pod) -> bool:
    """Return True if a pod waits for a claim that another pod must release."""
    return is_unplaced(pod) and "ReadWriteOncePod" in pod.unschedulable


def lacks_volume(scene: Scene) -> bool:
    """Return True if a pod waits for a claim without a volume, of the pipeline or another."""
    is_unbound_pod = any(is_unbound(pod) and _list_lacking(scene, pod) for pod in scene.pods)
    return is_unbound_pod or find_awaited_claim(scene) is not None


def describe_unbound(scene: Scene, pod: Pod) -> str:
    """Describe a pod that waits for a volume, and list its claims that may lack a volume."""
    names = _list_lacking(scene, pod)
    # The scheduler names missing claims, but not claims without a volume.
    unnamed = [name for name in names if f'"{name}"' not in pod.unschedulable]
    claims = f"claim{'s' if len(names) > 1 else ''} {', '.join(names)}: " if unnamed else ""
    return f"Pod {pod.meta.name}: {claims}{pod.unschedulable}"


def find_awaited_claim(scene: Scene) -> Block | None:
    """Report a claim with a chosen node but no volume, which the scheduler does not report."""
    awaited = {
        claim.meta.name: claim.meta.annotations[_SELECTED_NODE]
        for claim in scene.claims
        if claim.phase != "Bound" and _SELECTED_NODE in claim.meta.annotations
    }
    pods = (pod for pod in scene.pods if not pod.node and not pod.meta.is_deleting)
    waiting = ((pod, name) for pod in pods for name in pod.claims if name in awaited)
    pod, name = next(waiting, (None, ""))
    if pod is None:
        return None
    words = f"claim {name}: its storage class has not provided a volume for node {awaited[name]}"
    return Block(Reason.CLAIM_PENDING, f"Pod {pod.meta.name}: {words}")


def _list_lacking(scene: Scene, pod: Pod) -> list[str]:
    """Return a pod's claims that may lack a volume: the pipeline's claims, or else other claims."""
    own = [claim.meta.name for claim in scene.claims if claim.phase != "Bound"]
    known = {claim.meta.name for claim in scene.claims}
    names = dict.fromkeys([*pod.claims, *_list_template_claims(scene, pod)])
    return own or [name for name in names if name not in known]


def _list_template_claims(scene: Scene, pod: Pod) -> list[str]:
    ray = scene.spec.ray
    groups = {group.name: group for group in ray.worker_groups}
    node = groups.get(find_group(pod), ray.head)
    specs = (read_mapping(each.pod_template.get("spec")) for each in (ray, node))
    return [name for spec in specs for name in list_mounted(spec, pod.meta.name)]
