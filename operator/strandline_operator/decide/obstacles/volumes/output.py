"""Claim for outputs, which every pod mounts: whether it exists, and can be mounted by all pods.

Only the owner creates this claim. The module must not depend on the way the claim was read, nor on
the contents of the volume.
"""

from __future__ import annotations

from strandline_api.objects.pipeline import PipelineSpec
from strandline_api.status.reasons import Reason
from strandline_operator.decide.obstacles.obstacles import Block
from strandline_operator.decide.obstacles.volumes.claims import (
    WRITABLE,
    ClaimVerdict,
    describe_problem,
    examine_claim,
    judge_claim,
)
from strandline_operator.decide.scene import Pass
from strandline_operator.model.objects import VolumeClaim
from strandline_operator.model.plan import Resource
from strandline_operator.model.view import View

SHARED, ALONE = "ReadWriteMany", "ReadWriteOncePod"


def examine_storage(facts: Pass) -> ClaimVerdict:
    """Return the joint state of the ledger's claim and the claim for outputs."""
    view, spec = facts.view, facts.spec
    return _join(examine_claim(view, spec), _examine_output(view, spec))


def find_unusable_storage(facts: Pass) -> Block | None:
    """Report claims that a pod could not mount, or would await forever."""
    storage = examine_storage(facts)
    return None if storage.is_usable else Block(storage.reason, storage.detail)


def _examine_output(view: View, spec: PipelineSpec) -> ClaimVerdict | None:
    """Return the state of the claim for outputs.

    Return None if the pipeline names no such claim, or if claims are unreadable, which the state of
    the ledger's claim already reports.
    """
    facts = spec.storage.output.claim_name
    if facts is None or any(refusal.what == Resource.CLAIM for refusal in view.unread):
        return None
    name, claim = f"{facts} of storage.output", view.output
    # Class and size of a user's claim are the user's choice, so the operator does not create it.
    if claim is None:
        return describe_problem(Reason.CLAIM_MISSING, name)
    # A head without workers does not need a shared claim.
    if _is_shared(spec) and claim.modes and SHARED not in claim.modes:
        unshared = _refuse_unshared(claim, name)
        if unshared is not None:
            return unshared
    return judge_claim(claim, name)


def _join(ledger: ClaimVerdict, output: ClaimVerdict | None) -> ClaimVerdict:
    """Return the worse of the two states, because a pod needs both claims."""
    if output is None:
        return ledger
    # Report the blocking claim, but keep the action for the ledger's claim.
    if _rank(output) > _rank(ledger):
        return output._replace(action=ledger.action)
    # If both claims are usable, the message lists both names.
    if ledger.truth == output.truth == "True":
        return ledger._replace(message=f"{ledger.message}, and {output.message}")
    return ledger


def _rank(storage: ClaimVerdict) -> int:
    """Return the rank of a state; blocking states have the highest."""
    truths = ("True", "Unknown", "False")
    return truths.index(storage.truth) + (0 if storage.is_usable else len(truths))


def _is_shared(spec: PipelineSpec) -> bool:
    """Return whether workers mount the claim in addition to the head."""
    return any(max(group.min_replicas, group.max_replicas or 0) for group in spec.ray.worker_groups)


def _refuse_unshared(claim: VolumeClaim, name: str) -> ClaimVerdict | None:
    """Return the problem of a claim that not all pods can mount.

    Return None if the claim has a worse problem.
    """
    # An unusable claim is already reported with a worse problem.
    if not WRITABLE & set(claim.modes) or claim.meta.is_deleting or claim.phase == "Lost":
        return None
    outcome = describe_problem(Reason.CLAIM_NOT_SHARED, name, ", ".join(claim.modes))
    # A claim for a single pod fails with the first worker.
    if set(claim.modes) & WRITABLE == {ALONE}:
        return outcome
    # All pods may be on one node, for example in a single-node cluster; then the claim works.
    return outcome._replace(is_usable=True, truth="Unknown")
