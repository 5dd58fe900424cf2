"""Chooses the node and the write access of commands that use a claim.

While a writer runs, a ledger can be read only on the writer's node: LMDB's readers register in a
file that both processes map; otherwise the writer would reuse pages that a reader still needs.
Registering requires write access. So the claim is mounted read-only if no driver can be running,
and read-write if a driver is running. This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from strandline.cli.cluster.objects import ClaimHolder, ClusterPipeline, ListedAttempt
from strandline.plan.errors import StrandlineError
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.spec.pod_paths import OUTPUT

_ONE_POD = "ReadWriteOncePod"


class HeldClaimError(StrandlineError):
    """Raised if a pod uses the claim, and the command would disturb it or can't share the claim."""

    exit_code = ExitCode.LEDGER_IN_USE


class ClaimUse(Enum):
    """How a command uses the claims.

    Attributes:
        COPY: reads files that no longer change.
        READ: reads the ledger.
        OUTPUT: reads the ledger, and writes next to the outputs.
        WRITE: changes the ledger.
        REPAIR: changes the ledger, and removes outputs.
    """

    COPY = "copy"
    READ = "read"
    OUTPUT = "output"
    WRITE = "write"
    REPAIR = "repair"


class JobPlacement(NamedTuple):
    """Node and write access of a Job.

    Attributes:
        node: required node; empty if any node that can mount the claim will do.
        writes_ledger: whether the ledger's claim is mounted for writing.
        writes_output: whether a separate claim for outputs is mounted for writing.
    """

    node: str
    writes_ledger: bool
    writes_output: bool


def choose_placement(
    use: ClaimUse,
    pipeline: ClusterPipeline,
    attempt: ListedAttempt | None,
    modes: Sequence[str],
    holders: Sequence[ClaimHolder],
    output: str | None,
) -> JobPlacement:
    """Choose the node and the write access of a command.

    Args:
        use: how the command uses the claims.
        pipeline, attempt: the claim's owner, and its latest attempt or None.
        modes: access modes of the claim.
        holders: running or pending pods that mount the claim.
        output: folder or URL of the driver's outputs; None if they are on the ledger's claim.

    Raises:
        HeldClaimError: the command may not run now; the message names the condition to wait for.
    """
    name, heads = pipeline.name, [holder for holder in holders if holder.is_head]
    changes_ledger = use in {ClaimUse.WRITE, ClaimUse.REPAIR}
    # Check the attempt as well as the pods, because an attempt that has just begun has no head yet.
    if changes_ledger and (heads or (attempt is not None and attempt.is_under_way)):
        number = pipeline.status.attempt if attempt is None else attempt.number
        msg = (
            f"attempt {number} of {name} is running and writes the ledger; wait for its end "
            f"(`kubectl strandline wait {name}`), or end it first (`kubectl strandline suspend "
            f"{name}`, and `resume` afterwards)"
        )
        raise HeldClaimError(msg)
    # The claim permits only one pod, so a Job's pod would stay pending until the other pod ends.
    if holders and _ONE_POD in modes:
        pod = holders[0].pod
        msg = (
            f"only one pod can mount claim {pipeline.claim} ({_ONE_POD}), and pod {pod} uses it; "
            f"wait until that pod is gone (`kubectl wait --for=delete pod/{pod} --timeout=24h`)"
        )
        raise HeldClaimError(msg)
    # Prefer the head's node, because a reader must map the same lock file as the writer.
    nodes = [holder.node for holder in (*heads, *holders) if holder.node]
    return JobPlacement(
        node=nodes[0] if nodes else "",
        writes_ledger=changes_ledger
        or (use is ClaimUse.OUTPUT and output is None)
        # While a writer runs, a reader registers in LMDB's lock file, which needs write access.
        or (use is not ClaimUse.COPY and bool(heads)),
        writes_output=use in {ClaimUse.OUTPUT, ClaimUse.REPAIR},
    )


def find_output(document: Mapping[str, Any]) -> str | None:
    """Return the configured location of the outputs, or None for the pipeline's folder."""
    spec = document["spec"]
    path = (spec["sink"].get("with") or {}).get("path")
    url = ((spec.get("storage") or {}).get("output") or {}).get("url")
    return path if isinstance(path, str) else url


def is_on_claim(output: str | None) -> bool:
    """Return whether the outputs are on a claim: the ledger's claim or a separate claim."""
    return output is None or output == OUTPUT or output.startswith(f"{OUTPUT}/")
