"""The owner of a data set at a target: the ledger that pushed last. Pure.

A trial with a volume of its own has the same pipeline and another ledger, and would replace what
all runs have made by what it has.
"""

from __future__ import annotations

from collections.abc import Mapping

from strandline.run.release.push.errors import TargetRefusedError
from strandline.run.release.push.shipment import LEDGER, PIPELINE, Author

_SHORT = 12  # characters of an id that are shown


def require_ours(
    target: str, author: Author, properties: Mapping[str, object] | None, what: str = "table"
) -> None:
    """Refuse a target that another has written.

    Args:
        properties: of the last commit of ours; None: there is none.
        what: the target is.

    Raises:
        TargetRefusedError: it is another's.
    """
    found = properties or {}
    owner, ledger = found.get(PIPELINE), found.get(LEDGER)
    if owner != author.pipeline:
        whose = f"the pipeline {owner}" if owner else "somebody else"
        raise TargetRefusedError(
            f"{target}: {whose} has written this {what}, and a push replaces all rows of one; name "
            f"another {what}"
        )
    # Releases before this one wrote the ledger too; one that made nothing has an empty one.
    if author.takes_over or not ledger or ledger == author.ledger:
        return
    raise TargetRefusedError(
        f"{target}: another ledger of this pipeline, {str(ledger)[:_SHORT]}, has written this "
        f"{what}, and a push replaces all rows of one; for a trial name another {what}, and where "
        "that ledger is gone for good run without `publish.to`, and push there with `--take-over`"
    )
