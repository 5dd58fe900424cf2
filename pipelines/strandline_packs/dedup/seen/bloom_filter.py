"""Bloom filters: sets of digests that take a few bits each. Added digests are always found.

The upper bits of a digest select a segment. Sorted digests therefore fill the segments in order, so
a filter of any size can be written front to back with one segment in memory. The bytes of the
filter depend only on the set of digests. This module handles digests and bytes, not paths and rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

Digests = npt.NDArray[np.uint64]

_SEGMENT_BYTES = 1 << 20  # maximum size of a segment; filling takes eight times as much memory
_LEAST_BYTES = 512  # minimum size, because the formulas assume many bits
# Safety margin: without a margin, random variation would push half of all filters above the error
# rate.
_SPARE = 1.01
_HALF = np.uint64(32)
_BITS_OF_A_BYTE = np.uint64(3)


@dataclass(frozen=True, slots=True)
class BloomShape:
    """Layout of a filter's bits.

    Attributes:
        hashes: number of bits that a digest sets.
        segments: number of segments; each digest belongs to one.
        segment_bytes: size of a segment, in bytes.
    """

    hashes: int
    segments: int
    segment_bytes: int

    @property
    def bytes(self) -> int:
        """Total size of the bits, in bytes."""
        return self.segments * self.segment_bytes


def plan_shape(keys: int, error_rate: float, spare: float = _SPARE) -> BloomShape:
    """Return a layout that keeps the rate of false positives within a limit.

    Args:
        keys: number of digests to add.
        error_rate: rate of false positives, between 0 and 1.
        spare: factor on the computed size, as a safety margin.
    """
    # A filter of minimal size uses -log2(error rate) hashes.
    hashes = max(1, math.ceil(-math.log2(error_rate)))
    # `error = (1 - exp(-hashes * keys / bits)) ** hashes`, solved for `bits`.
    bits = -hashes * keys / math.log1p(-(error_rate ** (1 / hashes))) * spare
    segments = max(1, math.ceil(bits / 8 / _SEGMENT_BYTES))
    return BloomShape(hashes, segments, max(_LEAST_BYTES, math.ceil(bits / 8 / segments)))


def write_bits(digests: Digests, shape: BloomShape, file: BinaryIO) -> float:
    """Write the bits of the digests, and return the measured rate of false positives.

    Args:
        digests: sorted and unique, in memory or mapped from a file.
        shape: layout of the bits.
        file: receives `shape.bytes` bytes, front to back.

    Returns:
        The rate of false positives of the written bits, which may differ from the planned rate.
    """
    edges = np.arange(shape.segments + 1, dtype=np.uint64) << _HALF
    firsts = np.searchsorted(digests, _divide_up(edges[:-1], shape.segments) << _HALF)
    rates = []
    for start, end in zip(firsts, [*firsts[1:], len(digests)], strict=True):
        flags = np.zeros(shape.segment_bytes * 8, bool)
        for positions in _list_positions(digests[start:end], shape):
            flags[positions] = True
        # A false positive occurs if all hashes of a digest hit set bits.
        rates.append(float(flags.mean()) ** shape.hashes)
        file.write(np.packbits(flags, bitorder="little").tobytes())
    return math.fsum(rates) / len(rates)


def find_in_bits(digests: Digests, shape: BloomShape, bits: npt.NDArray[np.uint8]) -> list[bool]:
    """Return whether the filter contains each digest. Added digests are always found."""
    # Multiply and shift, which maps the upper halves evenly to segments and keeps their order.
    segments = (digests >> _HALF) * np.uint64(shape.segments) >> _HALF
    found = np.ones(len(digests), bool)
    for positions in _list_positions(digests, shape):
        at = segments * np.uint64(shape.segment_bytes) + (positions >> _BITS_OF_A_BYTE)
        found &= (bits[at] >> (positions & np.uint64(7)).astype(np.uint8)) & 1 == 1
    is_found: list[bool] = found.tolist()
    return is_found


def _divide_up(edges: Digests, segments: int) -> Digests:
    """Return the smallest upper half of a digest that falls into each segment."""
    # Negated floor division rounds up. Unsigned numbers can't be negated, hence the cast.
    return -(-edges.astype(np.int64) // segments).astype(np.uint64)


def _list_positions(digests: Digests, shape: BloomShape) -> Iterator[npt.NDArray[np.uint64]]:
    """Yield for each hash the bit positions of the digests in their segments."""
    size = np.uint64(shape.segment_bytes * 8)
    # Multiples of the golden ratio, as in SplitMix64, make the hashes independent.
    for number in range(1, shape.hashes + 1):
        yield _mix(digests + np.uint64(number * 0x9E3779B97F4A7C15 % (1 << 64))) % size


def _mix(values: Digests) -> Digests:
    """Mix the bits of each 64-bit value (SplitMix64 finalizer)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
