"""Orders shuffled rows. The order depends only on a seed and the keys of the rows.

This module takes keys, returns numbers, and does no I/O. The module must not depend on where rows
are stored, or their contents.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.uint64]
_BYTES = 8
# The partition and the sort key of a row must be independent, so the two use separate digests.
_PARTS, _ORDERS = b"part", b"order"
_HEAD_BITS = 32
_STEP = np.uint64(0x9E3779B97F4A7C15)  # increment of SplitMix64


def part_keys(keys: Iterable[str], seed: int, count: int) -> npt.NDArray[np.int64]:
    """Return the partition of each key, from 0 to `count - 1`. Depends only on seed and key."""
    return find_partitions(_digest_keys(keys, seed, _PARTS) >> np.uint64(_HEAD_BITS), count)


def find_partitions(heads: npt.NDArray[np.unsignedinteger], count: int) -> npt.NDArray[np.int64]:
    """Return the partition of each digest, from 0 to `count - 1`, by the digest's first 32 bits."""
    # Multiply and shift: maps 32 bits evenly to the partitions.
    return heads.astype(np.int64) * count >> _HEAD_BITS


def order_keys(keys: Iterable[str], seed: int, of: str = "") -> Numbers:
    """Return a sort key for each row.

    Args:
        of: name of the set of rows, such as a data set and its epoch. Every set has a different
            order.
    """
    return _digest_keys(keys, seed, _ORDERS + of.encode())


def draw_chance(seed: int, of: str) -> float:
    """Return a pseudorandom number from 0 to below 1 for a name."""
    # A float holds 53 bits exactly.
    return float(order_keys([of], seed, "chance")[0] >> np.uint64(11)) / (1 << 53)


def order_positions(count: int, seed: int, partition: int) -> Numbers:
    """Return sort keys for a partition whose rows have no keys, derived from row positions."""
    start = np.uint64(int.from_bytes(_seed(seed, _ORDERS + b"%d" % partition), "big"))
    with np.errstate(over="ignore"):  # sums and products are modulo 2**64
        return _mix(
            start + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        )


def _mix(numbers: Numbers) -> Numbers:
    """Mix the bits of each 64-bit number (SplitMix64 finalizer)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    return numbers ^ (numbers >> np.uint64(31))


def _digest_keys(keys: Iterable[str], seed: int, purpose: bytes) -> Numbers:
    # Copy the keyed state instead of hashing the seed again for every key.
    begun = blake2b(key=_seed(seed, purpose), digest_size=_BYTES)
    digests = []
    for key in keys:
        state = begun.copy()
        state.update(key.encode("utf-8", "surrogatepass"))
        digests.append(state.digest())
    return np.frombuffer(b"".join(digests), ">u8").astype(np.uint64)


def _seed(seed: int, purpose: bytes) -> bytes:
    return blake2b(b"%d\n" % seed + purpose, digest_size=_BYTES).digest()
