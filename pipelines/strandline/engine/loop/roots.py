"""Creates the first task of each released source, or the failure that prevents it.

All engines share this module, with any kind of ledger.
"""

from __future__ import annotations

from collections.abc import Iterable

from strandline.engine.call.handover import Pack, pack_alone
from strandline.engine.call.slots import Slot
from strandline.engine.call.stage.receipts import format_message
from strandline.engine.core.odd_sources import explain_odd
from strandline.engine.core.ports import Admitted
from strandline.engine.flow.flow import Flow
from strandline.ledger.records.entries import HAS_FAILED, RELEASED, ListedSource
from strandline.plan.receipt import Failure
from strandline.plan.stages.ends import Source
from strandline.plan.task import Lineage, Task
from strandline.plan.token import derive_root


def enter_roots(flow: Flow, verdicts: Iterable[int], batch: Admitted, pack: Pack) -> list[Failure]:
    """Queue the first task of each released source. Return failures of sources without a task.

    Args:
        verdicts: see `LedgerWriter.admit`.
        pack: packs a task; raises an error if the task can't be packed.
    """
    failures = []
    for verdict, (listed, source) in zip(verdicts, batch, strict=True):
        if verdict < RELEASED:
            continue
        root = _pack_root(flow.source, listed, source, pack)
        if isinstance(root, Failure):
            failures.append(root)
            continue
        has_failed, exposed = divmod(verdict - RELEASED, HAS_FAILED)
        if has_failed:
            flow.known_bad.add(root.source)
        flow.enter([root], exposed)
    flow.fail(failures)
    return failures


def make_root(listed: ListedSource, source: Source) -> Task:
    """Create the first task of a released source."""
    token = derive_root(listed.source, listed.version)
    return Task(source.data, source.meta, Lineage(listed.source, token, listed.key))


def _pack_root(stage: str, listed: ListedSource, source: Source, pack: Pack) -> Slot | Failure:
    task = make_root(listed, source)
    assert task.lineage is not None  # `root` is created with a lineage
    token, problem = task.lineage.token, explain_odd(source)
    if problem is None:
        block, why = pack_alone(task, pack)
        if why is None:
            return Slot(listed.source, listed.key, token, None, block, 0)
        problem = f"the listed source {why}"
    return Failure(listed.source, listed.key, token, stage, format_message(problem))
