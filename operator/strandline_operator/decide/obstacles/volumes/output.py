"""The claim for outputs, which every pod mounts: whether there is one, and whether all can.

Its owner alone makes it. This room must not know how it was read, nor what is written to it.
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
    """Return how both claims stand: the ledger's and that for outputs."""
    view, spec = facts.view, facts.spec
    return _join(examine_claim(view, spec), _examine_output(view, spec))


def find_unusable_storage(facts: Pass) -> Block | None:
    """Find that a pod could not mount its claims, or would wait for them without end."""
    storage = examine_storage(facts)
    return None if storage.is_usable else Block(storage.reason, storage.detail)


def _examine_output(view: View, spec: PipelineSpec) -> ClaimVerdict | None:
    """Return what the claim for outputs says; None where the pipeline names none.

    None as well where claims may not be read, which is said of the ledger's.
    """
    facts = spec.storage.output.claim_name
    if facts is None or any(refusal.what == Resource.CLAIM for refusal in view.unread):
        return None
    name, claim = f"{facts} of storage.output", view.output
    # Class and size of a user's claim are the user's to choose, so none is made here.
    if claim is None:
        return describe_problem(Reason.CLAIM_MISSING, name)
    # A head alone needs no claim that others can mount.
    if _is_shared(spec) and claim.modes and SHARED not in claim.modes:
        unshared = _refuse_unshared(claim, name)
        if unshared is not None:
            return unshared
    return judge_claim(claim, name)


def _join(ledger: ClaimVerdict, output: ClaimVerdict | None) -> ClaimVerdict:
    """Return how both claims stand: as the worse of them does, since a pod needs both."""
    if output is None:
        return ledger
    # The one that stands in the way is told; the ledger may have to be made all the same.
    if _rank(output) > _rank(ledger):
        return output._replace(action=ledger.action)
    # With both claims well, users look here for the name of each.
    if ledger.truth == output.truth == "True":
        return ledger._replace(message=f"{ledger.message}, and {output.message}")
    return ledger


def _rank(storage: ClaimVerdict) -> int:
    """Return the higher, the more it stands in the way."""
    truths = ("True", "Unknown", "False")
    return truths.index(storage.truth) + (0 if storage.is_usable else len(truths))


def _is_shared(spec: PipelineSpec) -> bool:
    """Return whether workers mount the claim beside the head."""
    return any(max(group.min_replicas, group.max_replicas or 0) for group in spec.ray.worker_groups)


def _refuse_unshared(claim: VolumeClaim, name: str) -> ClaimVerdict | None:
    """Return what to say of a claim that not all pods can mount.

    None where it has a worse problem.
    """
    # A claim that can't be used at all is reported by that worse problem.
    if not WRITABLE & set(claim.modes) or claim.meta.is_deleting or claim.phase == "Lost":
        return None
    outcome = describe_problem(Reason.CLAIM_NOT_SHARED, name, ", ".join(claim.modes))
    # A claim for one pod alone fails with the first worker.
    if set(claim.modes) & WRITABLE == {ALONE}:
        return outcome
    # All pods may come to one node, as where there is but one: then it works.
    return outcome._replace(is_usable=True, truth="Unknown")
