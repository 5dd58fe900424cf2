"""Parses and formats amounts in YAML: memory, cores, and durations.

A field keeps the text that its author wrote; code that needs a number parses the text. This module
must not depend on which field contains an amount.
"""

import math
import re
from fractions import Fraction
from typing import Annotated, Any

from pydantic import PlainValidator, WithJsonSchema

from strandline_api.notation.excerpts import shorten

# Kubernetes allows no greater quantity.
MAX_BYTES = 2**63 - 1
MAX_CPUS = 1_000_000
MAX_DURATION_SECONDS = 3650 * 86400

# Fractions keep decimal amounts exact: `0.1` has no exact float.
_MULTIPLIERS = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", start=1)},
}
_UNIT_SECONDS = {
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
    "d": Fraction(86400),
}
# The lengths of numbers are bounded, so hostile text cannot cost time or memory.
_NUMBER = r"[0-9]{1,19}(\.[0-9]{1,9})?"
# Matches `512Mi`, `1.5G`, `1e9`, and `500m`.
_QUANTITY_PATTERN = rf"^{_NUMBER}([eE][0-9]{{1,2}}|[numkMGTPE]|[KMGTPE]i)?$"
# Matches `90`, `30s`, and `1h30m`.
_DURATION_PATTERN = rf"^({_NUMBER}|({_NUMBER}(ms|s|m|h|d)){{1,8}})$"
# Splits an amount into number and suffix. `_QUANTITY_PATTERN` decides which suffixes are valid.
_QUANTITY_PARTS = re.compile(rf"({_NUMBER})(?:[eE]([0-9]{{1,2}})|([a-zA-Z]{{0,2}}))")
# Maximum length of text that the patterns accept.
_MAX_TEXT = 256
_DURATION_PART = re.compile(rf"({_NUMBER})(ms|s|m|h|d)")

_MEMORY_LIKE = "must be an amount such as '512Mi' or '2Gi'"
_CPU_LIKE = "must be a number of cores such as '500m' or 2"
_DURATION_LIKE = "must be a duration such as '30s', '10m' or '1h30m'"


def parse_memory(value: object) -> int:
    """Convert a Kubernetes quantity of memory or disk to bytes.

    Args:
        value: a whole number of bytes, or text such as `512Mi`, `2G`, `1.5Gi`, `1e9`.

    Returns:
        Bytes, rounded up to a whole number; at least 1.

    Raises:
        ValueError: if the value is not a quantity, is zero, has a suffix for less than a byte (as
            in `400m`), or is at least 8Ei.
    """
    amount = _parse_quantity(value, _MEMORY_LIKE)
    if amount == 0:
        raise ValueError("must be more than zero")
    # Kubernetes reads `400m` as 0.4 bytes; authors mean `400M` or `400Mi`.
    if isinstance(value, str) and value[-1] in "num":
        raise ValueError(f"{_MEMORY_LIKE}, not {value!r}, which counts parts of a byte")
    if amount > MAX_BYTES:
        raise ValueError("must be less than '8Ei'")
    return math.ceil(amount)


def format_memory(amount: int) -> str:
    """Format bytes for people: `6Gi`, `1536Mi`, `1000`. `parse_memory` is the inverse."""
    for power, suffix in ((6, "Ei"), (5, "Pi"), (4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki")):
        whole, rest = divmod(amount, 1024**power)
        if whole and not rest:
            return f"{whole}{suffix}"
    return str(amount)


def parse_cpu(value: object) -> float:
    """Convert a Kubernetes quantity of CPU to cores.

    Args:
        value: a number of cores, or text such as `500m`, `2`, `1.5`.

    Returns:
        Cores, at least 0.

    Raises:
        ValueError: if the value is not a quantity, or more than a million cores.
    """
    amount = _parse_quantity(value, _CPU_LIKE)
    if amount > MAX_CPUS:
        raise ValueError(f"must be at most {MAX_CPUS} cores")
    return float(amount)


def parse_duration(value: object) -> float:
    """Convert a duration to seconds.

    Args:
        value: a number of seconds, or text such as `60s`, `10m`, `1h30m`, `250ms`, `2d`, `90`.

    Returns:
        Seconds, at least 0.

    Raises:
        ValueError: if the value is not a duration, is negative, or is more than ten years.
    """
    seconds = _count(value, _DURATION_LIKE)
    if isinstance(value, str):
        if re.fullmatch(_DURATION_PATTERN, value) is None:
            raise ValueError(f"{_DURATION_LIKE}, not {shorten(value)}")
        parts = _DURATION_PART.findall(value)
        # The pattern has validated the text, so no part of the text is lost here.
        seconds = sum(
            (Fraction(number) * _UNIT_SECONDS[unit] for number, _, unit in parts),
            start=Fraction(0) if parts else Fraction(value),
        )
    if seconds > MAX_DURATION_SECONDS:
        raise ValueError("must be at most ten years ('3650d')")
    return float(seconds)


def _parse_quantity(value: object, like: str) -> Fraction:
    if not isinstance(value, str):
        return _count(value, like)
    parts = _QUANTITY_PARTS.fullmatch(value)
    if parts is None or re.fullmatch(_QUANTITY_PATTERN, value) is None:
        raise ValueError(f"{like}, not {shorten(value)}{_respelling(value)}")
    number, _, exponent, suffix = parts.groups()
    if exponent is not None:
        return Fraction(number) * Fraction(10) ** int(exponent)
    return Fraction(number) * _MULTIPLIERS[suffix]


def _count(value: object, like: str) -> Fraction:
    """Return the value of a bare number. Return zero for text, which the caller validates."""
    if isinstance(value, str):
        return Fraction(0)
    # YAML has `.inf` and `.nan`, and Python's `True` is an integer. Reject them as amounts.
    endless = isinstance(value, float) and not math.isfinite(value)
    if endless or isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{like}, not {shorten(value)}")
    if value < 0:
        raise ValueError("must not be negative")
    return Fraction(value)


def _respelling(text: str) -> str:
    """Suggest the Kubernetes notation for a common mistake, such as `2GB`, `2 Gi`, or `2gib`."""
    match = re.fullmatch(rf"({_NUMBER})\s*([kKmMgGtTpP])(i?)[bB]?", text.strip())
    if match is None:
        return ""
    number, _, letter, binary = match.groups()
    # Kubernetes writes `k` for 1,000, but `Ki` for 1,024.
    prefix = letter.upper() if binary or letter not in "kK" else "k"
    return f"; write '{number}{prefix}{binary}'"


def _keep_quantity(value: object) -> int | str:
    parse_memory(value)
    return _kept(value, _MEMORY_LIKE)


def _keep_duration(value: object) -> int | str:
    parse_duration(value)
    return _kept(value, _DURATION_LIKE)


def _keep_positive_duration(value: object) -> int | str:
    if parse_duration(value) == 0:
        raise ValueError("must be more than zero")
    return _kept(value, _DURATION_LIKE)


def _kept(value: object, like: str) -> int | str:
    """Reject a fractional number without a unit, as the API server does in int-or-string fields."""
    if isinstance(value, int | str):
        return value
    raise ValueError(f"{like}, not {value!r}")


def _int_or_text(pattern: str) -> dict[str, Any]:
    return {
        "x-kubernetes-int-or-string": True,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": pattern,
        "maxLength": _MAX_TEXT,
    }


# Fields of these types keep the author's text; use `parse_memory` and `parse_duration` to read it.
Quantity = Annotated[
    int | str, PlainValidator(_keep_quantity), WithJsonSchema(_int_or_text(_QUANTITY_PATTERN))
]
Duration = Annotated[
    int | str, PlainValidator(_keep_duration), WithJsonSchema(_int_or_text(_DURATION_PATTERN))
]
PositiveDuration = Annotated[
    int | str,
    PlainValidator(_keep_positive_duration),
    WithJsonSchema(_int_or_text(_DURATION_PATTERN)),
]
