"""The ledger's verdicts about listed sources, and the resulting counts."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from strandline.engine.core.listing_thread import SOURCES_AHEAD, ListingThread
from strandline.engine.core.ports import ADMIT_BATCH, Listing
from strandline.engine.ray.admission import ActorAdmission
from strandline.engine.ray.transport import ActorTransport
from strandline.ledger.records.entries import QUARANTINED, RELEASED, SKIPPED, ListedSource
from strandline.plan.stages.ends import Source
from test_flow import make_flow

VERDICTS = [QUARANTINED, SKIPPED, RELEASED, QUARANTINED, QUARANTINED, RELEASED]


def test_law_each_source_is_skipped_quarantined_or_released() -> None:
    flow = make_flow(1)
    ledger: Any = SimpleNamespace(is_tracked=True, admit=lambda *_: "asked")
    sources = (Source(str(number), "1", number) for number in range(len(VERDICTS)))
    listing = ListingThread(Listing(sources), time.monotonic)
    admission = ActorAdmission(listing, ledger, flow)

    while admission.asked is None:
        admission.ask(is_full=False, limit=1.0)
    admission.take(VERDICTS)

    assert (admission.skipped, admission.quarantined) == (1, 3)
    assert [slot.key for slot in flow.queues[0].waiting] == ["2", "5"]
    listing.close()


def test_skipped_sources_are_reported_to_the_ledger_once() -> None:
    asked: list[tuple[int, int]] = []
    ledger: Any = SimpleNamespace(
        is_tracked=True, admit=lambda batch, passed: asked.append((len(batch), passed))
    )
    batches = iter([(1, 4), (0, 4), (0, 9), (1, 9)])  # sources, and sources skipped so far
    listing: Any = SimpleNamespace(is_ended=False, passed=0)

    def take(*_: object) -> list[Any]:
        count, listing.passed = next(batches)
        return [(ListedSource(b"s" * 16, b"v" * 8, "key", 1), Source("key", "1", None))] * count

    listing.take = take
    admission = ActorAdmission(listing, ledger, make_flow(1))
    for verdicts in ([SKIPPED], [], [], [RELEASED]):
        admission.ask(is_full=False)
        admission.take(verdicts)
    assert asked == [(1, 4), (0, 5), (1, 0)]  # an empty message without counts is not sent
    assert admission.skipped == 10


@pytest.mark.parametrize(
    ("room", "size"), [(1, ADMIT_BATCH), (SOURCES_AHEAD, SOURCES_AHEAD), (10**6, SOURCES_AHEAD)]
)
def test_a_batch_is_larger_if_there_is_much_room(room: int, size: int) -> None:
    """Without much space, batches are small, because each waiting source would leave a mark."""
    asked: list[int] = []
    ledger: Any = SimpleNamespace(is_tracked=True, admit=lambda batch, _: asked.append(len(batch)))
    sources = (Source(str(number), "1", number) for number in range(2 * SOURCES_AHEAD))
    listing = ListingThread(Listing(sources), time.monotonic)
    admission = ActorAdmission(listing, ledger, make_flow(1))
    wait_until_drawn(listing)
    admission.ask(is_full=False, room=room)
    assert asked == [size]
    listing.close()


@pytest.mark.parametrize(
    ("verdicts", "is_promising"),
    [([RELEASED], True), ([SKIPPED], False), ([RELEASED, QUARANTINED], False)],
)
def test_workers_start_early_while_the_ledger_releases_all_sources(
    verdicts: list[int], *, is_promising: bool
) -> None:
    ledger: Any = SimpleNamespace(is_tracked=True, admit=lambda *_: "asked")
    sources = (Source(str(number), "1", number) for number in range(2 * SOURCES_AHEAD))
    listing = ListingThread(Listing(sources), time.monotonic)
    admission = ActorAdmission(listing, ledger, make_flow(1))
    seen = [admission.is_promising]
    wait_until_drawn(listing)
    admission.ask(is_full=False)
    seen.append(admission.is_promising)
    admission.take(verdicts + [RELEASED] * (ADMIT_BATCH - len(verdicts)))
    seen.append(admission.is_promising)
    admission.ask(is_full=False)
    seen.append(admission.is_promising)
    assert seen == [False, True, False, is_promising]
    listing.close()


@pytest.mark.parametrize("is_promising", [True, False])
def test_the_first_workers_start_during_the_ledgers_verdict(*, is_promising: bool) -> None:
    looks: list[int | None] = []

    def look(_: object, sources_left: int | None) -> list[object]:
        looks.append(sources_left)
        return []

    driver: Any = SimpleNamespace(
        _flow=SimpleNamespace(queues=[], is_stopped=False, is_idle=lambda: True),
        _admission=SimpleNamespace(is_promising=is_promising, sources_left=7),
        _demand=SimpleNamespace(look=lambda *_: None),
        _scaler=SimpleNamespace(is_due=lambda _: True, look=look, bottleneck="a"),
        _check_room=lambda: None,
    )
    ActorTransport._scale(driver)
    assert looks == ([7] if is_promising else [])
    assert (driver._scaler.bottleneck is None) != is_promising


def wait_until_drawn(listing: ListingThread) -> None:
    """Wait until the thread has read as many sources ahead as it may."""
    assert listing.take(60.0) is not None  # start reading, and then make space
    with listing._change:
        assert listing._change.wait_for(lambda: not listing._has_room(), 60.0)
