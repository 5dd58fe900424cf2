"""The operator's benchmark measures the right quantities; speed is not tested."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path

import pytest

from api_server import NoApiServerError
from strandline_api.notation.times import format_time
from strandline_bench.operator.bench import Findings, Load, list_rows, observe
from strandline_bench.operator.cluster.objects import Ending
from strandline_bench.operator.host import Pass, Reading, count_requests, read_passes
from strandline_bench.operator.meter import meter
from strandline_bench.operator.moments import AttemptId, Moments, take_share
from strandline_bench.operator.rest import Rest
from strandline_bench.operator.rest import list_rows as list_rest

PLACE = ("a", "corpus-3")
LOAD = Load(
    10,
    pace=20.0,
    longest=150.0,
    rest=0.0,
    settings={"STRANDLINE_SETTLE": "1", "STRANDLINE_PULL_INTERVAL": "1"},
)


class Clock:
    """A CPU clock that advances on request."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


def test_a_meter_counts_the_steps_of_each_call_without_waiting() -> None:
    clock, noted = Clock(), list[tuple[float, float]]()
    watch = iter([0.0, 0.0, 100.0, 100.0])

    def note(cost: float, length: float) -> None:
        noted.append((cost, length))

    async def work(cost: float) -> str:
        clock.time += cost
        await asyncio.sleep(0)  # other passes run meanwhile, and must not be counted
        clock.time += cost
        return f"cost {cost}"

    async def play() -> list[str]:
        metered = meter(work, clock, lambda: next(watch), note)
        return list(await asyncio.gather(metered(1.0), metered(16.0)))

    assert asyncio.run(play()) == ["cost 1.0", "cost 16.0"]
    assert sorted(noted) == [(2.0, 100.0), (32.0, 100.0)]


def test_a_meter_counts_calls_that_fail_or_are_cancelled() -> None:
    clock, noted = Clock(), list[float]()

    def note(cost: float, length: float) -> None:
        noted.append(cost)

    async def work(is_bad: bool) -> None:
        clock.time += 1
        try:
            await asyncio.sleep(0 if is_bad else 60)
        finally:
            clock.time += 2
        raise ValueError("bad")

    async def play() -> None:
        metered = meter(work, clock, clock, note)
        with pytest.raises(ValueError, match="bad"):
            await metered(True)
        task = asyncio.create_task(metered(False))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(play())
    assert noted == [3.0, 3.0]


def render_pipeline(phase: str, attempt: int, due: float | None) -> dict[str, object]:
    status = {"phase": phase, "attempt": attempt}
    times = {} if due is None else {"nextAttemptTime": format_time(due)}
    return {"metadata": {"namespace": "a", "name": "corpus-3"}, "status": status | times}


def render_attempt(number: int, **status: object) -> dict[str, object]:
    spec = {"pipeline": "corpus-3", "number": number}
    return {"metadata": {"namespace": "a", "name": "x"}, "spec": spec, "status": status}


def test_delays_last_from_due_times_to_first_observations() -> None:
    moments = Moments()
    moments.see_pipeline(render_pipeline("Pending", 0, 100.5), 100.0)
    moments.see_attempt(render_attempt(1), 101.0)
    moments.show_evidence(AttemptId(*PLACE, 1), 110.0)
    moments.see_attempt(render_attempt(1, endTime="later"), 110.5)
    ended = render_attempt(1, endTime="later", isFrozen=True, cause="OOMKilled")
    moments.see_attempt(ended, 115.0)
    moments.see_pipeline(render_pipeline("Waiting", 1, 120.25), 115.0)
    moments.see_pipeline(render_pipeline("Waiting", 1, 120.25), 116.0)
    assert moments.retry_delays == []
    moments.see_attempt(render_attempt(2), 121.0)
    moments.see_attempt(render_attempt(2), 130.0)
    moments.see_pipeline(render_pipeline("Succeeded", 2, None), 140.0)
    assert moments.first_delays == [1.0]
    assert moments.end_delays == [0.5]
    assert moments.retry_delays == [0.75]
    assert moments.phases == {PLACE: "Succeeded"}
    assert moments.causes == {AttemptId(*PLACE, 1): "OOMKilled"}


@pytest.mark.parametrize(("share", "number"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.001, 1)])
def test_the_given_share_of_numbers_does_not_exceed_the_percentile(
    share: float, number: float
) -> None:
    assert take_share(range(100, 0, -1), share) == number
    assert take_share([], share) == 0


def test_requests_are_counted_by_verb_and_resource() -> None:
    name = "strandline_api_requests_total"
    page = f"""# TYPE {name} counter
{name}{{verb="LIST",resource="pods",code="200"}} 3.0
{name}{{verb="LIST",resource="pods",code="500"}} 1.0
{name}{{verb="GET",resource="nodes",code="200"}} 2.0
# TYPE other counter
other_total 7.0
"""
    assert count_requests(page) == {"LIST pods": 4, "GET nodes": 2}


def test_half_a_line_of_passes_is_left_out() -> None:
    assert read_passes("10.5 3.25 9\n11.0 4.0 8\n12") == [Pass(10.5, 3.25, 9), Pass(11, 4, 8)]
    assert read_passes("") == []


def test_two_of_ten_pipelines_fail_at_first_and_all_work_at_the_same_time() -> None:
    load = Load(100, pace=10)
    parts = [load.cast(AttemptId("a", f"corpus-{number}", 1)) for number in range(100)]
    endings = Counter(part.ending for part in parts)
    assert endings == {Ending.WELL: 80, Ending.MEMORY: 10, Ending.PREEMPTED: 10}
    assert all(part.seconds > load.pipelines / load.pace for part in parts)
    assert load.cast(AttemptId("a", "corpus-3", 2)).ending is Ending.WELL


def read(time: float, cpu: float, **requests: int) -> Reading:
    return Reading(time, cpu, 90_000_000, 260_000_000, Counter(requests))


def test_rows_report_missed_targets() -> None:
    moments = Moments(
        ended={AttemptId(*PLACE, number): 1.0 for number in (1, 2)},
        due={AttemptId(*PLACE, 2): 10.0},
        made={AttemptId(*PLACE, 2): 12.5},
        phases={PLACE: "Failed"},
    )
    passes = (Pass(5, 1000, 1), Pass(10, 4, 40), Pass(20, 51, 90), Pass(21, 1000, 1))
    findings = Findings(
        load=Load(1),
        moments=moments,
        begun=read(10.0, 1.0, GET=1),
        ended=read(20.0, 2.0, GET=7, WATCH=100),
        rested=read(30.0, 2.5),
        late=(0.0,),
        passes=passes,
    )
    rows = {row.what.partition(": ")[2]: (row.measured, row.verdict) for row in list_rows(findings)}
    assert rows["run to their end"] == ("0 pipelines", "no")
    assert rows["memory, at most"] == ("260 MB", "no")
    assert rows["memory, when all have ended"] == ("90 MB", "–")
    assert rows["CPU of a pass, p50"] == ("4 ms", "–")
    assert rows["CPU of a pass, p99"] == ("51 ms", "no")
    assert rows["length of a pass, p50"] == ("40 ms", "–")
    assert rows["length of a pass, p99"] == ("90 ms", "–")
    assert rows["CPU of the process for each pass, streams and sockets too"] == ("500 ms", "–")
    assert rows["share of a core"] == ("10 %", "–")
    assert rows["share of a core, when all have ended"] == ("5 %", "–")
    assert rows["requests an attempt"] == ("3", "yes")
    assert rows["next attempt after its time, p99"] == ("2.50 s", "no")


def test_missing_observations_do_not_count_as_reached() -> None:
    reading = read(10.0, 1.0)
    findings = Findings(Load(1), Moments(), reading, read(20.0, 2.0), read(30.0, 2.5), ())
    rows = {row.what.partition(": ")[2]: (row.measured, row.verdict) for row in list_rows(findings)}
    assert rows["memory, when it was stopped"] == ("90 MB", "–")
    for what in ("next attempt after its time, p99", "CPU of a pass, p99", "requests an attempt"):
        assert rows[what] == ("not seen", "–")


def test_rows_about_rest_cover_the_time_after_the_start() -> None:
    rest = Rest(10, read(10.0, 1.0, GET=1), read(20.0, 2.0, GET=31), read(30.0, 2.5, GET=31))
    rows = {row.what.partition(": ")[2]: (row.measured, row.verdict) for row in list_rest(rest)}
    assert rows["memory, at most"] == ("260 MB", "yes")
    assert rows["share of a core"] == ("5 %", "yes")
    assert rows["requests for each since its start"] == ("3.00", "–")
    assert rows["CPU of the start for each"] == ("200 ms", "–")


def test_pipelines_are_seen_through_on_a_real_server(tmp_path: Path) -> None:
    try:
        findings = observe(LOAD, tmp_path)
    except NoApiServerError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    moments = findings.moments
    assert list(moments.phases.values()) == ["Succeeded"] * 10
    causes = {
        (attempt_id.pipeline, attempt_id.number): cause
        for attempt_id, cause in moments.causes.items()
    }
    assert causes == {("corpus-3", 1): "OOMKilled", ("corpus-7", 1): "Preempted"}
    assert len(moments.ended) == 12
    assert (len(moments.end_delays), len(moments.retry_delays)) == (12, 2)
    assert len(moments.first_delays) == 10
    assert min(moments.retry_delays) >= 0
    # A pass reads its pipeline from the server only before it creates something.
    assert 4 * findings.requests["GET curationpipelines.strandline.dev"] < len(findings.passes)
    assert findings.requests["POST curationattempts.strandline.dev"] == 12
    assert findings.requests["POST rayjobs.ray.io"] == 12
    assert all(0 < one.cost < one.length for one in findings.passes)
    assert 0 < sum(one.cost for one in findings.busy) / 1000 < findings.rested.cpu
    assert findings.rested.peak >= findings.rested.resident > 0
