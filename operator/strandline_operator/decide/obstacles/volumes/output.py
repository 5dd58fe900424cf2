"""Examines the claim for outputs: whether it exists, and whether all pods can mount it.

The user creates this claim. This module must not depend on how the claim was read, or on the
contents of the volume.
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
    """Return the combined state of the ledger's claim and the claim for outputs."""
    view, spec = facts.view, facts.spec
    return _join(examine_claim(view, spec), _examine_output(view, spec))


def find_unusable_storage(facts: Pass) -> Block | None:
    """Report claims that a pod could not mount, or for which a pod would wait forever."""
    storage = examine_storage(facts)
    return None if storage.is_usable else Block(storage.reason, storage.detail)


def _examine_output(view: View, spec: PipelineSpec) -> ClaimVerdict | None:
    """Return the state of the claim for outputs.

    Return None if the pipeline names no claim for outputs, or if claims are unreadable. The state
    of the ledger's claim already reports unreadable claims.
    """
    facts = spec.storage.output.claim_name
    if facts is None or any(refusal.what == Resource.CLAIM for refusal in view.unread):
        return None
    name, claim = f"{facts} of storage.output", view.output
    # The operator does not create this claim, because class and size are the user's choice.
    if claim is None:
        return describe_problem(Reason.CLAIM_MISSING, name)
    # Without workers, only the head mounts the claim, so it need not be shared.
    if _is_shared(spec) and claim.modes and SHARED not in claim.modes:
        unshared = _refuse_unshared(claim, name)
        if unshared is not None:
            return unshared
    return judge_claim(claim, name)


def _join(ledger: ClaimVerdict, output: ClaimVerdict | None) -> ClaimVerdict:
    """Return the worse of two states, because a pod needs both claims."""
    if output is None:
        return ledger
    # Report the claim that blocks, but keep the action for the ledger's claim.
    if _rank(output) > _rank(ledger):
        return output._replace(action=ledger.action)
    # If both claims are usable, the message lists both names.
    if ledger.truth == output.truth == "True":
        return ledger._replace(message=f"{ledger.message}, and {output.message}")
    return ledger


def _rank(storage: ClaimVerdict) -> int:
    """Return a state's severity; blocking states have the highest."""
    truths = ("True", "Unknown", "False")
    return truths.index(storage.truth) + (0 if storage.is_usable else len(truths))


def _is_shared(spec: PipelineSpec) -> bool:
    """Return True if workers mount the claim in addition to the head."""
    return any(max(group.min_replicas, group.max_replicas or 0) for group in spec.ray.worker_groups)


def _refuse_unshared(claim: VolumeClaim, name: str) -> ClaimVerdict | None:
    """Return the state of a claim that not all pods can mount.

    Return None if the claim has a worse problem.
    """
    # Other code reports these problems, which are worse.
    if not WRITABLE & set(claim.modes) or claim.meta.is_deleting or claim.phase == "Lost":
        return None
    outcome = describe_problem(Reason.CLAIM_NOT_SHARED, name, ", ".join(claim.modes))
    # A claim for a single pod would fail when the first worker starts.
    if set(claim.modes) & WRITABLE == {ALONE}:
        return outcome
    # A claim for a single node works if all pods are on one node, as in a single-node cluster.
    return outcome._replace(is_usable=True, truth="Unknown")
