"""In which order rows stand that are shuffled: it follows from a seed and from their keys alone.

Pure: keys in, numbers out. It must not know where rows are kept, nor what is in them.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.uint64]
_BYTES = 8
# Two numbers of a row must not follow from each other: one parts it, the other one orders it.
_PARTS, _ORDERS = b"part", b"order"
_HEAD_BITS = 32
_STEP = np.uint64(0x9E3779B97F4A7C15)  # SplitMix64's


def part_keys(keys: Iterable[str], seed: int, count: int) -> npt.NDArray[np.int64]:
    """Return the partition of each key, of `count`; seed and key decide, nothing else."""
    return find_partitions(_digest_keys(keys, seed, _PARTS) >> np.uint64(_HEAD_BITS), count)


def find_partitions(heads: npt.NDArray[np.unsignedinteger], count: int) -> npt.NDArray[np.int64]:
    """Return the partition, of `count`, of digests by the first 32 bits of each."""
    return heads.astype(np.int64) * count >> _HEAD_BITS


def order_keys(keys: Iterable[str], seed: int, of: str = "") -> Numbers:
    """Return by what rows are sorted, a number for each key.

    Args:
        of: what the rows are of, such as a data set and how often it has come; each has an order
            of its own.
    """
    return _digest_keys(keys, seed, _ORDERS + of.encode())


def draw_chance(seed: int, of: str) -> float:
    """Return a number from 0 to below 1, by chance, for something by its name."""
    return float(order_keys([of], seed, "chance")[0] >> np.uint64(11)) / (1 << 53)


def order_positions(count: int, seed: int, partition: int) -> Numbers:
    """Return by what the rows of a partition are sorted that have no keys: by where they stand."""
    start = np.uint64(int.from_bytes(_seed(seed, _ORDERS + b"%d" % partition), "big"))
    with np.errstate(over="ignore"):  # sums and products are meant modulo 2**64
        return _mix(
            start + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        )


def _mix(numbers: Numbers) -> Numbers:
    """Return numbers that look like chance, each of another one (SplitMix64)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    return numbers ^ (numbers >> np.uint64(31))


def _digest_keys(keys: Iterable[str], seed: int, purpose: bytes) -> Numbers:
    begun = blake2b(key=_seed(seed, purpose), digest_size=_BYTES)
    digests = []
    for key in keys:
        state = begun.copy()
        state.update(key.encode("utf-8", "surrogatepass"))
        digests.append(state.digest())
    return np.frombuffer(b"".join(digests), ">u8").astype(np.uint64)


def _seed(seed: int, purpose: bytes) -> bytes:
    return blake2b(b"%d\n" % seed + purpose, digest_size=_BYTES).digest()
