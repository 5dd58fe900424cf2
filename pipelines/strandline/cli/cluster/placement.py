"""Where a command on a claim may run, and what of it the command may write.

A ledger is read beside its writer only on the same node: LMDB's readers note themselves in a file
that both have mapped, or the writer would use pages again that they still read. So a claim is
mounted read-only where no driver may be at work, and for reading and writing beside one. Pure.
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
    """The claim is held by a pod that would be harmed, or that lets no other have it."""

    exit_code = ExitCode.LEDGER_IN_USE


class ClaimUse(Enum):
    """Choose what a command does with what is on the claims.

    Attributes:
        COPY: it reads files that are not changed any more.
        READ: it reads the ledger.
        OUTPUT: it reads the ledger, and writes beside the outputs.
        WRITE: it changes the ledger.
        REPAIR: it changes the ledger, and removes outputs.
    """

    COPY = "copy"
    READ = "read"
    OUTPUT = "output"
    WRITE = "write"
    REPAIR = "repair"


class JobPlacement(NamedTuple):
    """Where a Job runs.

    Attributes:
        node: on this node alone; empty: on any that has the claim.
        writes_ledger: the ledger's claim is mounted for writing.
        writes_output: the outputs' claim is, where they are on one of their own.
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
    """Choose where a command runs and what it may write.

    Args:
        use: what it does.
        pipeline, attempt: the claim's owner, and its latest attempt.
        modes: access modes of the claim.
        holders: pods that mount it and have not ended.
        output: folder or URL of the outputs, as the driver was told; None: on the ledger's claim.

    Raises:
        HeldClaimError: it may not run now; the message has what to wait for.
    """
    name, heads = pipeline.name, [holder for holder in holders if holder.is_head]
    changes_ledger = use in {ClaimUse.WRITE, ClaimUse.REPAIR}
    if changes_ledger and (heads or (attempt is not None and attempt.is_under_way)):
        number = pipeline.status.attempt if attempt is None else attempt.number
        msg = (
            f"attempt {number} of {name} is under way and writes the ledger; wait for its end "
            f"(`kubectl strandline wait {name}`), or end it first "
            f"(`kubectl strandline suspend {name}`, and `resume` afterwards)"
        )
        raise HeldClaimError(msg)
    if holders and _ONE_POD in modes:
        pod = holders[0].pod
        msg = (
            f"claim {pipeline.claim} is for a single pod ({_ONE_POD}) and pod {pod} has it; wait "
            f"until that is gone (`kubectl wait --for=delete pod/{pod} --timeout=24h`)"
        )
        raise HeldClaimError(msg)
    nodes = [holder.node for holder in (*heads, *holders) if holder.node]
    return JobPlacement(
        node=nodes[0] if nodes else "",
        writes_ledger=changes_ledger
        or (use is ClaimUse.OUTPUT and output is None)
        or (use is not ClaimUse.COPY and bool(heads)),
        writes_output=use in {ClaimUse.OUTPUT, ClaimUse.REPAIR},
    )


def find_output(document: Mapping[str, Any]) -> str | None:
    """Return where a driver's pipeline says that outputs are; None: in its folder on the volume."""
    spec = document["spec"]
    path = (spec["sink"].get("with") or {}).get("path")
    url = ((spec.get("storage") or {}).get("output") or {}).get("url")
    return path if isinstance(path, str) else url


def is_on_claim(output: str | None) -> bool:
    """Return whether outputs are on a claim, of their own or the ledger's."""
    return output is None or output == OUTPUT or output.startswith(f"{OUTPUT}/")
