"""Delivery of a data set at the end of a run, together with its card."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from strandline.cli.app.ledger_access import locate
from strandline.cli.card.card import render_card
from strandline.cli.card.naming import choose_license, find_title
from strandline.cli.card.reading import read_card
from strandline.ledger.access.session import LedgerSession
from strandline.plan.pipeline import PipelinePlan
from strandline.run.release.push.pushing import PushClock, make_delivery
from strandline.storage.layout import PipelineFolder
from strandline_api.objects.pipeline import ObjectMeta
from strandline_api.spec.publishing import Publishing


def plan_delivery(
    plan: PipelinePlan,
    volume: Path | None,
    publishing: Publishing | None,
    metadata: ObjectMeta,
    clock: PushClock,
) -> Callable[[LedgerSession], str] | None:
    """Return a function that delivers a complete run's files, or None if there is no target.

    Args:
        volume: folder with the ledger, or None for a run without a ledger.
        metadata: metadata of the pipeline, which may have the title and license of the data set.
        clock: see `push`.

    Raises:
        BadTargetError: the target can't receive a push.
    """
    # A run without a ledger can't deliver; other code rejects this with a specific message.
    if publishing is None or publishing.to is None or volume is None:
        return None
    folder, names = locate(plan, volume), (find_title(metadata), choose_license(metadata))
    card = partial(write_card, plan, folder, clock, *names)
    return make_delivery(plan, folder, publishing.to, card, clock)


def write_card(
    plan: PipelinePlan, folder: PipelineFolder, clock: PushClock, title: str, license_id: str | None
) -> bytes:
    """Return the card of a delivered data set."""
    facts = read_card(plan, folder, clock.time(), title, license_id)
    return render_card(facts).encode("utf-8", "replace")
