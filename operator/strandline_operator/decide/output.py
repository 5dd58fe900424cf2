"""The claim for outputs, which every pod mounts: whether there is one, and whether all can.

Nobody makes it but its owner. This room must not know how it was read, nor what is written to it.
"""

from __future__ import annotations

from strandline_api.objects.pipeline import PipelineSpec
from strandline_api.status.reasons import Reason
from strandline_operator.decide.storage import WRITABLE, Storage, judge_claim, say_problem
from strandline_operator.model.objects import Claim
from strandline_operator.model.plan import Resource
from strandline_operator.model.view import View

SHARED, ALONE = "ReadWriteMany", "ReadWriteOncePod"


def examine_output(view: View, spec: PipelineSpec) -> Storage | None:
    """What the claim for outputs says; None where the pipeline names none.

    None as well where claims may not be read, which is said of the ledger's.
    """
    given = spec.storage.output.claim_name
    if given is None or any(one.what == Resource.CLAIM for one in view.unread):
        return None
    name, claim = f"{given} of storage.output", view.output
    if claim is None:
        return say_problem(Reason.CLAIM_MISSING, name)
    if _is_shared(spec) and claim.modes and SHARED not in claim.modes:
        unshared = _refuse_unshared(claim, name)
        if unshared is not None:
            return unshared
    return judge_claim(claim, name)


def join(ledger: Storage, output: Storage | None) -> Storage:
    """How both claims stand: as the worse of them does, since a pod needs both."""
    if output is None:
        return ledger
    if _rank(output) > _rank(ledger):
        return output._replace(create=ledger.create)
    if ledger.truth == output.truth == "True":
        return ledger._replace(message=f"{ledger.message}, and {output.message}")
    return ledger


def _rank(storage: Storage) -> int:
    """The higher, the more it stands in the way."""
    truths = ("True", "Unknown", "False")
    return truths.index(storage.truth) + (0 if storage.is_usable else len(truths))


def _is_shared(spec: PipelineSpec) -> bool:
    """Whether workers mount the claim beside the head."""
    return any(max(one.min_replicas, one.max_replicas or 0) for one in spec.ray.worker_groups)


def _refuse_unshared(claim: Claim, name: str) -> Storage | None:
    """What to say of a claim that not all pods can mount; None where it has a worse problem."""
    if not WRITABLE & set(claim.modes) or claim.meta.is_deleting or claim.phase == "Lost":
        return None
    said = say_problem(Reason.CLAIM_NOT_SHARED, name, ", ".join(claim.modes))
    if set(claim.modes) & WRITABLE == {ALONE}:
        return said
    # All pods may come to one node, as where there is but one: then it works.
    return said._replace(is_usable=True, truth="Unknown")
