"""What is read once in a while: it holds for its time, and nothing that failed is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from strandline_operator.reconcile.caches.ttl_cache import TtlCache


class Source:
    """Answers with the number of the question, or fails as it is told."""

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
def test_a_value_holds_from_its_reading_until_its_time_is_over(now: float, expected: int) -> None:
    cache: TtlCache[str, int] = TtlCache(10.0)
    source = Source()
    read(cache, source, 100.0)
    assert read(cache, source, now) == expected


def test_keys_are_read_apart() -> None:
    cache: TtlCache[str, int] = TtlCache(10.0)
    source = Source()
    assert [read(cache, source, 0.0, key) for key in "abab"] == [1, 2, 1, 2]


def test_a_failure_keeps_nothing_and_what_was_there_before_can_still_be_had() -> None:
    cache: TtlCache[str, int] = TtlCache(10.0)
    source = Source(None, OSError("gone"))
    read(cache, source, 0.0)
    with pytest.raises(OSError, match="gone"):
        read(cache, source, 10.0)
    before = cache.find_any("a")
    assert before is not None
    assert (before.value, cache.find("a", 10.0)) == (1, None)
    assert read(cache, source, 10.0) == 3


def test_a_value_may_hold_for_a_time_of_its_own() -> None:
    cache: TtlCache[str, int] = TtlCache(10.0)
    cache.keep("a", 7, 0.0, seconds=100.0)
    assert read(cache, Source(), 99.0) == 7


def test_keys_do_not_grow_without_end() -> None:
    cache: TtlCache[str, int] = TtlCache(10.0, most=3)
    for key in "abcd":
        cache.keep(key, 1, 0.0)
    assert len(cache) == 1
    cache.keep("d", 2, 0.0)  # one that is known needs no room
    assert (len(cache), read(cache, Source(), 1.0, "d")) == (1, 2)


def test_what_is_gone_or_has_changed_is_forgotten() -> None:
    cache: TtlCache[str, int] = TtlCache(10.0, most=None)
    for key in ("a1", "a2", "b1", "b2"):
        cache.keep(key, 0, 0.0)
    cache.forget(lambda key: key.startswith("a"))
    cache.drop("b1")
    cache.drop("never")
    assert [key for key in ("a1", "a2", "b1", "b2") if cache.find_any(key)] == ["b2"]
