"""Claims that the operator created for ledgers, and the pipelines that use them.

This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from strandline.cli.cluster.objects import (
    Json,
    find_holders,
    read_cluster_pipeline,
)
from strandline_api.names import PIPELINE_LABEL


class LedgerClaim(NamedTuple):
    """A claim that was created for a pipeline.

    Attributes:
        pipeline: name of the pipeline, shortened as in labels.
        is_used: whether a pipeline in the claim's namespace keeps its ledger on the claim.
        size, created: values from the API server.
        pods: running or pending pods that mount the claim.
    """

    namespace: str
    name: str
    pipeline: str
    is_used: bool
    size: str
    created: str
    pods: tuple[str, ...]


def list_ledger_claims(
    claims: Iterable[Json], pipelines: Iterable[Json], pods: Iterable[Json]
) -> list[LedgerClaim]:
    """List claims of ledgers, sorted by namespace and name.

    Args:
        claims: claims with the label of a pipeline.
        pipelines: all pipelines. Read them from the server after the claims; otherwise the claim of
            a new pipeline would seem unused.
        pods: pods of the same namespaces.
    """
    used = {(each.namespace, each.claim) for each in map(read_cluster_pipeline, pipelines)}
    by_namespace: dict[str, list[Json]] = {}
    for pod in pods:
        by_namespace.setdefault(pod["metadata"].get("namespace", ""), []).append(pod)
    found = [_read(claim, used, by_namespace) for claim in claims]
    return sorted(found, key=lambda claim: (claim.namespace, claim.name))


def _read(claim: Json, used: set[tuple[str, str]], pods: dict[str, list[Json]]) -> LedgerClaim:
    metadata, status = claim["metadata"], claim.get("status") or {}
    namespace, name = metadata["namespace"], metadata["name"]
    # Pass no UID: it only identifies heads, which this list does not distinguish from other pods.
    holders = find_holders(pods.get(namespace, []), name, "")
    return LedgerClaim(
        namespace=namespace,
        name=name,
        pipeline=(metadata.get("labels") or {}).get(PIPELINE_LABEL, ""),
        is_used=(namespace, name) in used,
        size=(status.get("capacity") or {}).get("storage", ""),
        created=metadata.get("creationTimestamp", ""),
        pods=tuple(holder.pod for holder in holders),
    )
