"""Every Kubernetes spelling of a quantity is understood, and errors get one clear sentence."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline_api.notation.excerpts import shorten
from strandline_api.notation.quantities import (
    MAX_BYTES,
    format_memory,
    parse_cpu,
    parse_duration,
    parse_memory,
)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (1, 1),
        (1536, 1536),
        ("1", 1),
        ("128974848", 128974848),
        ("129M", 129_000_000),
        ("129e6", 129_000_000),
        ("1E3", 1000),
        ("1E", 10**18),
        ("1k", 1000),
        ("2G", 2 * 10**9),
        ("3T", 3 * 10**12),
        ("4P", 4 * 10**15),
        ("1Ki", 1024),
        ("512Mi", 512 * 2**20),
        ("2Gi", 2 * 2**30),
        ("1.5Gi", 3 * 2**29),
        ("1Ti", 2**40),
        ("1Pi", 2**50),
        ("7Ei", 7 * 2**60),
        ("0.1Ki", 103),
    ],
)
def test_memory_is_read_as_kubernetes_reads_it(written: object, expected: int) -> None:
    assert parse_memory(written) == expected


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("2GB", "must be an amount such as '512Mi' or '2Gi', not '2GB'; write '2G'"),
        ("2 Gi", "must be an amount such as '512Mi' or '2Gi', not '2 Gi'; write '2Gi'"),
        ("2gib", "must be an amount such as '512Mi' or '2Gi', not '2gib'; write '2Gi'"),
        ("2K", "must be an amount such as '512Mi' or '2Gi', not '2K'; write '2k'"),
        ("lots", "must be an amount such as '512Mi' or '2Gi', not 'lots'"),
        ("", "must be an amount such as '512Mi' or '2Gi', not ''"),
        ("-1Gi", "must be an amount such as '512Mi' or '2Gi', not '-1Gi'"),
        ("1e999", "must be an amount such as '512Mi' or '2Gi', not '1e999'"),
        ("2Gi\n", "must be an amount such as '512Mi' or '2Gi', not '2Gi\\n'; write '2Gi'"),
        ("٣Gi", "must be an amount such as '512Mi' or '2Gi', not '٣Gi'"),
        (
            "400m",
            "must be an amount such as '512Mi' or '2Gi', not '400m', which counts parts of a byte",
        ),
        (True, "must be an amount such as '512Mi' or '2Gi', not True"),
        (None, "must be an amount such as '512Mi' or '2Gi', not None"),
        ([], "must be an amount such as '512Mi' or '2Gi', not []"),
        (float("nan"), "must be an amount such as '512Mi' or '2Gi', not nan"),
        (0, "must be more than zero"),
        ("0Gi", "must be more than zero"),
        (-5, "must not be negative"),
        ("8Ei", "must be less than '8Ei'"),
        (2**63, "must be less than '8Ei'"),
    ],
)
def test_bad_memory_gets_one_sentence(written: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        parse_memory(written)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("500m", 0.5),
        ("2", 2.0),
        (2, 2.0),
        (0.25, 0.25),
        ("1.5", 1.5),
        ("0", 0.0),
        ("250000u", 0.25),
    ],
)
def test_cpu_is_read_as_kubernetes_reads_it(written: object, expected: float) -> None:
    assert parse_cpu(written) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("half", "must be a number of cores such as '500m' or 2, not 'half'"),
        (None, "must be a number of cores such as '500m' or 2, not None"),
        (-1, "must not be negative"),
        ("2M", "must be at most 1000000 cores"),
    ],
)
def test_bad_cpu_gets_one_sentence(written: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        parse_cpu(written)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (60, 60.0),
        (0.5, 0.5),
        ("90", 90.0),
        ("60s", 60.0),
        ("10m", 600.0),
        ("1h30m", 5400.0),
        ("250ms", 0.25),
        ("1.5h", 5400.0),
        ("2d", 172800.0),
        ("1d2h3m4s5ms", 93784.005),
        ("0s", 0.0),
    ],
)
def test_durations_are_read(written: object, expected: float) -> None:
    assert parse_duration(written) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("5 min", "must be a duration such as '30s', '10m' or '1h30m', not '5 min'"),
        ("1h30", "must be a duration such as '30s', '10m' or '1h30m', not '1h30'"),
        ("-1s", "must be a duration such as '30s', '10m' or '1h30m', not '-1s'"),
        ("", "must be a duration such as '30s', '10m' or '1h30m', not ''"),
        (False, "must be a duration such as '30s', '10m' or '1h30m', not False"),
        ({}, "must be a duration such as '30s', '10m' or '1h30m', not {}"),
        (float("inf"), "must be a duration such as '30s', '10m' or '1h30m', not inf"),
        (-1, "must not be negative"),
        ("3651d", "must be at most ten years ('3650d')"),
        (10**400, "must be at most ten years ('3650d')"),
    ],
)
def test_bad_durations_get_one_sentence(written: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        parse_duration(written)


@given(st.integers(1, 2**62))
def test_a_bare_number_and_its_text_are_the_same_memory(count: int) -> None:
    assert parse_memory(count) == parse_memory(str(count)) == count


@given(st.integers(0, 999), st.integers(0, 59), st.integers(0, 59))
def test_a_duration_is_the_sum_of_its_parts(hours: int, minutes: int, seconds: int) -> None:
    together = parse_duration(f"{hours}h{minutes}m{seconds}s")
    assert together == hours * 3600 + minutes * 60 + seconds


def outcome(parse: Callable[[object], float], written: object) -> float | str:
    try:
        return parse(written)
    except ValueError as error:
        return str(error)


@given(st.text() | st.integers() | st.floats() | st.booleans() | st.none())
def test_any_value_is_an_amount_or_a_value_error(written: object) -> None:
    for parse in (parse_memory, parse_cpu, parse_duration):
        found = outcome(parse, written)
        assert found.startswith("must ") if isinstance(found, str) else found >= 0


@given(st.text(max_size=300))
def test_a_value_in_a_message_is_short(text: str) -> None:
    assert len(shorten(text)) <= 62
    assert shorten(text)[-1] == repr(text)[-1]


@given(st.integers(1, MAX_BYTES))
def test_formatted_bytes_are_read_as_the_same_amount(amount: int) -> None:
    assert parse_memory(format_memory(amount)) == amount


@given(st.integers(1, 2**13 - 1), st.sampled_from(["Ki", "Mi", "Gi", "Ti", "Pi"]))
def test_bytes_are_formatted_briefly(amount: int, unit: str) -> None:
    assert len(format_memory(parse_memory(f"{amount}{unit}"))) <= len(f"{amount}{unit}")


@pytest.mark.parametrize(
    ("amount", "text"),
    [(1, "1"), (1023, "1023"), (1536, "1536"), (6 * 2**30, "6Gi"), (1536 * 2**20, "1536Mi")],
)
def test_only_whole_units_are_formatted(amount: int, text: str) -> None:
    assert format_memory(amount) == text
