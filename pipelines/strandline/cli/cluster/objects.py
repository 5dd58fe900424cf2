"""Objects of a cluster in the form that commands need, read from kubectl's JSON.

Operators of other versions may have written the objects, so unknown and missing fields are
tolerated. The module must not depend on the way objects were requested.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from strandline_api.names import PIPELINE_UID_LABEL, ROLE_LABEL, name_claim
from strandline_api.objects.attempt import AttemptStatus, parse_attempt_status
from strandline_api.outcome.causes import Cause
from strandline_api.status.handled_tokens import HandledTokens
from strandline_api.status.pipeline_status import PipelineStatus, parse_status

Json = Mapping[str, Any]

PIPELINES = "curationpipelines.strandline.dev"
ATTEMPTS = "curationattempts.strandline.dev"
_ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class ClusterPipeline:
    """The fields of a CurationPipeline that commands need.

    Attributes:
        claim: name of the claim that holds the ledger.
        spec: current spec, which may be newer than the latest attempt's spec.
    """

    name: str
    namespace: str
    uid: str
    generation: int
    annotations: Mapping[str, str]
    is_suspended: bool
    claim: str
    spec: Json
    status: PipelineStatus

    @property
    def unanswered(self) -> HandledTokens:
        """Requests in annotations that the operator has not handled yet."""
        asked, known = (
            HandledTokens.from_annotations(self.annotations),
            self.status.handled or HandledTokens(),
        )
        return HandledTokens(
            retry=asked.retry if asked.retry != known.retry else "",
            cancel=asked.cancel if asked.cancel != known.cancel else "",
        )


@dataclass(frozen=True, slots=True)
class ListedAttempt:
    """The fields of a CurationAttempt that commands need."""

    name: str
    number: int
    run: str
    trigger: str
    status: AttemptStatus

    @property
    def has_ended(self) -> bool:
        """Return whether the attempt's end was recorded; its pods may still exist."""
        return self.status.end_time is not None or self.status.is_frozen

    @property
    def is_under_way(self) -> bool:
        """Return whether pods of the attempt may still exist."""
        return not self.status.is_frozen

    @property
    def cause(self) -> Cause | None:
        """The cause of a failed attempt, or None if the attempt has not failed."""
        return self.status.cause


@dataclass(frozen=True, slots=True)
class ClaimHolder:
    """A running or pending pod that mounts the claim.

    Attributes:
        node: name of the node; empty while the pod is unscheduled.
        is_head: whether the pod is the Ray head of this pipeline, whose driver may write the
            ledger.
        spec: spec of the pod.
    """

    pod: str
    node: str
    is_head: bool
    spec: Json


def read_cluster_pipeline(document: Json) -> ClusterPipeline:
    """Read a pipeline from the API server's JSON."""
    metadata, spec = document["metadata"], document.get("spec") or {}
    status = parse_status(document.get("status") or {})
    ledger = (spec.get("storage") or {}).get("ledger") or {}
    return ClusterPipeline(
        name=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        generation=int(metadata.get("generation", 0)),
        annotations=metadata.get("annotations") or {},
        is_suspended=spec.get("suspend") is True,
        # Prefer the claim in the status: the spec may have been edited after the latest attempt.
        claim=status.volume_claim or ledger.get("claimName") or name_claim(metadata["name"]),
        spec=spec,
        status=status,
    )


def read_cluster_attempt(document: Json) -> ListedAttempt:
    """Read an attempt from the API server's JSON."""
    spec = document.get("spec") or {}
    return ListedAttempt(
        name=document["metadata"]["name"],
        number=int(spec.get("number", 0)),
        run=str(spec.get("run", "")),
        trigger=str(spec.get("trigger", "")),
        status=parse_attempt_status(document.get("status") or {}),
    )


def find_holders(pods: Iterable[Json], claim: str, uid: str) -> tuple[ClaimHolder, ...]:
    """Return the pods that mount a claim.

    Args:
        pods: pods of the namespace.
        claim: name of the claim.
        uid: uid of the pipeline, to recognise its heads; empty if heads need not be recognised.
    """
    return tuple(
        _read_holder(pod, uid)
        for pod in pods
        if (pod.get("status") or {}).get("phase") not in _ENDED and claim in _list_claims(pod)
    )


def _list_claims(pod: Json) -> set[str]:
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    return {(volume.get("persistentVolumeClaim") or {}).get("claimName", "") for volume in volumes}


def _read_holder(pod: Json, uid: str) -> ClaimHolder:
    labels = pod["metadata"].get("labels") or {}
    is_head = labels.get(PIPELINE_UID_LABEL) == uid and labels.get(ROLE_LABEL) == "head"
    return ClaimHolder(
        pod["metadata"]["name"], pod["spec"].get("nodeName", ""), is_head, pod["spec"]
    )
