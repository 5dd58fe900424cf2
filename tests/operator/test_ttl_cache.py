"""A cache of reads: each value expires after a time, and failures are not cached."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pytest

from strandline_operator.reconcile.caches.ttl_cache import TtlCache


class Source:
    """A source that counts its calls, and returns the count or raises a prepared error."""

    def __init__(self, *errors: Exception | None) -> None:
        self.errors: Iterator[Exception | None] = iter(errors)
        self.asked = 0

    async def load(self) -> int:
        self.asked += 1
        error = next(self.errors, None)
        if error is not None:
            raise error
        return self.asked


def read(cache: TtlCache[str, int], source: Source, now: float, key: str = "a") -> int:
    return asyncio.run(cache.read(key, now, source.load))


@pytest.mark.parametrize(("now", "expected"), [(100.0, 1), (109.9, 1), (110.0, 2), (99.9, 2)])
def test_a_value_is_valid_from_its_read_until_its_expiry(now: float, expected: int) -> None:
    cache: TtlCache[str, int] = TtlCache(10.0)
    source = Source()
    read(cache, source, 100.0)
    assert read(cache, source, now) == expected


def test_keys_are_read_apart() -> None:
    cache: TtlCache[str, int] = TtlCache(10.0)
    source = Source()
    assert [read(cache, source, 0.0, key) for key in "abab"] == [1, 2, 1, 2]


def test_a_failure_is_not_cached_and_the_previous_value_stays_available() -> None:
    cache: TtlCache[str, int] = TtlCache(10.0)
    source = Source(None, OSError("gone"))
    read(cache, source, 0.0)
    with pytest.raises(OSError, match="gone"):
        read(cache, source, 10.0)
    before = cache.find_any("a")
    assert before is not None
    assert (before.value, cache.find("a", 10.0)) == (1, None)
    assert read(cache, source, 10.0) == 3


def test_a_value_may_have_its_own_lifetime() -> None:
    cache: TtlCache[str, int] = TtlCache(10.0)
    cache.keep("a", 7, 0.0, seconds=100.0)
    assert read(cache, Source(), 99.0) == 7


def test_the_number_of_keys_is_limited() -> None:
    cache: TtlCache[str, int] = TtlCache(10.0, most=3)
    for key in "abcd":
        cache.keep(key, 1, 0.0)
    assert len(cache) == 1
    cache.keep("d", 2, 0.0)  # replacing a known key takes no further space
    assert (len(cache), read(cache, Source(), 1.0, "d")) == (1, 2)


def test_a_dropped_key_is_removed() -> None:
    cache: TtlCache[str, int] = TtlCache(10.0, most=None)
    for key in ("a", "b"):
        cache.keep(key, 0, 0.0)
    cache.drop("a")
    cache.drop("never")
    assert [key for key in ("a", "b") if cache.find_any(key)] == ["b"]


class SlowSource(Source):
    """A source that answers only after the test sets `may_answer`."""

    def __init__(self, *errors: Exception | None) -> None:
        super().__init__(*errors)
        self.may_answer = asyncio.Event()

    async def load(self) -> int:
        answer = asyncio.create_task(super().load())
        await self.may_answer.wait()
        return await answer


def read_at_once(source: SlowSource, nows: Sequence[float], cancelled: int = 0) -> list[object]:
    """Start a read for each given time, cancel the first reads, and return the results."""

    async def play() -> list[object]:
        cache: TtlCache[str, int] = TtlCache(10.0)
        tasks = [asyncio.create_task(cache.read("a", now, source.load)) for now in nows]
        await asyncio.sleep(0)
        for task in tasks[:cancelled]:
            task.cancel()
        await asyncio.sleep(0)
        source.may_answer.set()
        return list(await asyncio.gather(*tasks, return_exceptions=True))

    return asyncio.run(play())


def test_concurrent_reads_share_one_load() -> None:
    source = SlowSource()
    assert read_at_once(source, (5.0, 6.0, 4.0)) == [1, 1, 1]
    assert source.asked == 1


def test_concurrent_reads_share_a_failure() -> None:
    source = SlowSource(OSError("gone"))
    first, second = read_at_once(source, (5.0, 6.0))
    assert (str(first), str(second)) == ("gone", "gone")
    assert source.asked == 1


def test_a_waiting_reader_repeats_a_cancelled_load() -> None:
    source = SlowSource()
    first, *others = read_at_once(source, (5.0, 6.0, 7.0), cancelled=1)
    assert isinstance(first, asyncio.CancelledError)
    assert others == [2, 2]
    assert source.asked == 2


def test_cancelling_a_waiting_reader_keeps_the_load() -> None:
    async def play() -> tuple[int, bool]:
        cache: TtlCache[str, int] = TtlCache(10.0)
        loading = asyncio.create_task(cache.read("a", 5.0, source.load))
        waiting = asyncio.create_task(cache.read("a", 5.0, source.load))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
        source.may_answer.set()
        return await loading, waiting.cancelled()

    source = SlowSource()
    assert asyncio.run(play()) == (1, True)


def test_a_load_started_before_a_drop_serves_no_later_read() -> None:
    cache: TtlCache[str, int] = TtlCache(10.0)
    source = Source()
    may_end = asyncio.Event()

    async def load_late() -> int:
        value = await source.load()
        await may_end.wait()
        return value

    async def read_twice() -> list[int]:
        first = asyncio.create_task(cache.share("a", load_late))
        await asyncio.sleep(0)
        cache.drop("a")
        second = await cache.share("a", source.load)
        may_end.set()
        return [await first, second]

    assert asyncio.run(read_twice()) == [1, 2]
