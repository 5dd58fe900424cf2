"""Schedules have five cron fields and a time zone, reject impossible times, and name runs."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from pipeline_documents import with_change
from strandline_api.api_model import LABEL_PATTERN
from strandline_api.documents.documents import parse_pipeline
from strandline_api.documents.problems import SpecError
from strandline_api.spec.schedule import RunSchedule, name_scheduled_run

MARCH = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)


def read(**schedule: object) -> RunSchedule:
    found = parse_pipeline(with_change("spec.schedule", schedule)).spec.schedule
    assert found is not None
    return found


def refuse(**schedule: object) -> str:
    with pytest.raises(SpecError) as caught:
        read(**schedule)
    return str(caught.value)


def test_a_schedule_is_in_utc_by_default() -> None:
    assert read(cron="0 3 * * 1").zone == "UTC"
    schedule = read(cron="*/5  3-6 1,15 jan-MAR *", timeZone="Europe/Berlin")
    assert schedule.rule == "*/5 3-6 1,15 jan-MAR * Europe/Berlin"
    assert read(cron="0 3 * * *", startingDeadline="1h").starting_deadline_seconds == 3600
    assert parse_pipeline(with_change("spec.suspend", True)).spec.schedule is None


@pytest.mark.parametrize(
    ("cron", "sentence"),
    [
        ("0 3 * *", "must be five fields (minute, hour,"),
        ("0 3 * * * *", "must be five fields (minute, hour,"),
        ("@daily", "must be five fields"),
        ("60 3 * * *", "'60' is not a valid minute, which is 0 to 59"),
        ("0 24 * * *", "'24' is not a valid hour, which is 0 to 23"),
        ("0 0 0 * *", "'0' is not a valid day of the month, which is 1 to 31"),
        ("0 0 * FOO *", "'FOO' is not a valid month, which is 1 to 12"),
        ("0 0 * * 8", "'8' is not a valid day of the week, which is 0 to 7"),
        ("JAN 0 * * *", "'JAN' is not a valid minute"),
        ("9-3 0 * * *", "'9-3' ends before it begins"),
        ("5-0 0 * * *", "'5-0' ends before it begins"),
        ("0 0 * * SUN,TUE-MON", "'TUE-MON' ends before it begins"),
        ("*/0 0 * * *", "'*/0' has a step of 0"),
    ],
)
def test_impossible_schedules_are_rejected(cron: str, sentence: str) -> None:
    assert sentence in refuse(cron=cron)


def test_an_unknown_zone_is_rejected() -> None:
    assert "unknown time zone 'Europe/Atlantis'" in refuse(
        cron="0 3 * * *", timeZone="Europe/Atlantis"
    )
    assert "must be a time zone" in refuse(cron="0 3 * * *", timeZone="../etc/passwd")
    assert "spec.schedule.cron: required" in refuse(timeZone="UTC")


def fields(least: int, greatest: int) -> st.SearchStrategy[str]:
    numbers = st.integers(least, greatest)
    spans = st.tuples(numbers, numbers).map(lambda pair: "{}-{}".format(*sorted(pair)))
    parts = st.just("*") | numbers.map(str) | spans
    stepped = st.builds("{}/{}".format, st.just("*") | spans, st.integers(1, 9))
    return st.lists(parts | stepped, min_size=1, max_size=3).map(",".join)


@given(
    cron=st.tuples(fields(0, 59), fields(0, 23), fields(1, 28), fields(1, 12), fields(0, 6)).map(
        " ".join
    )
)
def test_law_accepted_schedules_are_valid_for_the_cron_library(cron: str) -> None:
    schedule = read(cron=cron)
    moment = next(CronSim(schedule.cron, MARCH))
    assert moment > MARCH


@given(
    bounds=st.tuples(st.integers(0, 7), st.integers(0, 7)),
    place=st.sampled_from(["{} 0 * * *", "0 {} * * *", "0 0 * {} *", "0 0 * * {}"]),
)
def test_law_a_range_in_any_order_is_rejected_or_valid_for_the_cron_library(
    bounds: tuple[int, int], place: str
) -> None:
    cron = place.format("{}-{}".format(*bounds))
    try:
        schedule = read(cron=cron)
    except SpecError:
        return
    CronSim(schedule.cron, MARCH)


@pytest.mark.parametrize("cron", ["0 0 * * FRI-SUN", "0 0 * * 5-0", "0 0 * * fri-7"])
def test_a_range_of_days_may_end_on_sunday(cron: str) -> None:
    starts = CronSim(read(cron=cron).cron, datetime(2026, 11, 30, tzinfo=UTC))
    assert [next(starts).strftime("%a") for _ in range(4)] == ["Fri", "Sat", "Sun", "Fri"]


def test_a_range_of_sunday_alone_has_no_other_day() -> None:
    starts = CronSim(read(cron="0 0 * * 0-0").cron, datetime(2026, 11, 30, tzinfo=UTC))
    assert {next(starts).strftime("%a") for _ in range(3)} == {"Sun"}


@given(moment=st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)))  # noqa: DTZ001 - made aware
def test_law_a_run_name_is_a_label_derived_from_the_time(moment: datetime) -> None:

    time = moment.replace(second=0, microsecond=0, tzinfo=UTC).timestamp()
    name = name_scheduled_run(time)
    assert re.fullmatch(LABEL_PATTERN, name)
    assert name == name_scheduled_run(time)
    assert name != name_scheduled_run(time + 60)
