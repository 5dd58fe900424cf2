"""What becomes of listed sources by the ledger's verdicts, and how they are counted."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

from strandline.engine.core.listing_thread import ListingThread
from strandline.engine.core.ports import Listing
from strandline.engine.ray.admission import Admission
from strandline.ledger.entries import QUARANTINED, RELEASED, SKIPPED
from strandline.plan.stage import Source
from test_flow import make_flow

VERDICTS = [QUARANTINED, SKIPPED, RELEASED, QUARANTINED, QUARANTINED, RELEASED]


def test_law_each_source_is_skipped_quarantined_or_released() -> None:
    flow = make_flow(1)
    ledger: Any = SimpleNamespace(is_tracked=True, admit=lambda _: "asked")
    sources = (Source(str(number), "1", number) for number in range(len(VERDICTS)))
    listing = ListingThread(Listing(sources), time.monotonic)
    admission = Admission(listing, ledger, flow)

    while admission.asked is None:
        admission.ask(is_full=False, limit=1.0)
    admission.take(VERDICTS)

    assert (admission.skipped, admission.quarantined) == (1, 3)
    assert [slot.key for slot in flow.queues[0].waiting] == ["2", "5"]
    listing.close()
