"""Clocks that differ or are set cause no end, wait, or start."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from kubernetes.aio.client.configuration import Configuration

from fake_api import until
from http_stub import serve
from simulated_cluster import SimulatedCluster
from strandline_api.notation.times import format_time
from strandline_api.outcome.driver_outcome import DriverOutcome
from strandline_api.status.pipeline_status import Progress
from strandline_operator.cluster.client import KubernetesApi
from strandline_operator.cluster.errors import ApiError
from strandline_operator.cluster.server_clock import ServerClock
from strandline_operator.model.plan import Create, Resource
from strandline_operator.reconcile.scheduling.gate import DispatchGate
from strandline_operator.reconcile.scheduling.queue import PassResult, Queue
from strandline_operator.reconcile.scheduling.schedule import Key, Schedule

MIDNIGHT = datetime(2026, 11, 24, tzinfo=UTC).timestamp()
HOUR, DAY = 3600.0, 86400.0
A, B = Key("team", "a"), Key("team", "b")


class SkewedCluster(SimulatedCluster):
    """A cluster whose server clock is `ahead` seconds behind the operator's clock."""

    ahead = 0.0

    def _create(self, action: Create) -> None:
        super()._create(action)
        for body in (*self.objects.values(), *(body for body, _ in self.attempts.values())):
            created = body["metadata"].get("creationTimestamp")
            if created == format_time(self.time):
                body["metadata"]["creationTimestamp"] = format_time(self.time - self.ahead)


@pytest.mark.parametrize("ahead", [31 * 60.0, -31 * 60.0, DAY])
def test_an_attempt_starts_however_far_the_server_s_clock_is_off(ahead: float) -> None:
    cluster = SkewedCluster(time=MIDNIGHT)
    cluster.ahead = ahead
    cluster.settle()
    assert cluster.list_of(Resource.RAYJOB)
    cluster.advance(60.0)
    _, attempt = cluster.attempts["corpus-1"]
    assert attempt.end_time is None
    cluster.start_rayjob()
    cluster.settle()
    assert cluster.attempts["corpus-1"][1].phase.value == "Running"


@pytest.mark.parametrize("ahead", [31 * 60.0, -31 * 60.0])
def test_a_start_has_exactly_its_own_time(ahead: float) -> None:
    cluster = SkewedCluster(time=MIDNIGHT)
    cluster.ahead = ahead
    cluster.settle()
    cluster.advance(29 * 60.0)
    assert cluster.attempts["corpus-1"][1].end_time is None
    cluster.advance(2 * 60.0)
    assert str(cluster.attempts["corpus-1"][1].cause) == "SchedulingTimeout"


def finish_first_run(cluster: SimulatedCluster) -> None:
    cluster.settle()
    cluster.start_rayjob()
    cluster.settle()
    cluster.finish()


@pytest.mark.parametrize("ahead", [HOUR, DAY, 400 * DAY])
@pytest.mark.parametrize("cron", ["0 3 * * *", "*/5 * * * *"])
def test_a_schedule_continues_after_a_clock_step(cron: str, ahead: float) -> None:
    cluster = SimulatedCluster(time=MIDNIGHT)
    cluster.edit(schedule={"cron": cron})
    finish_first_run(cluster)
    begin, cluster.time = cluster.time, cluster.time + ahead
    cluster.settle()
    if cluster.list_of(Resource.RAYJOB):
        cluster.start_rayjob()
        cluster.settle()
        cluster.finish()
    before = len(cluster.attempts)
    cluster.time = begin + 60.0
    cluster.settle()
    assert len(cluster.attempts) == before
    cluster.time = MIDNIGHT + 3 * HOUR
    cluster.settle()
    assert cluster.status.run == "at-20261124t0300z"
    assert len(cluster.attempts) == before + 1


def test_a_schedule_edited_in_the_future_counts_from_now() -> None:
    cluster = SimulatedCluster(time=MIDNIGHT)
    finish_first_run(cluster)
    cluster.edit(schedule={"cron": "0 3 * * *"})
    cluster.advance(DAY)
    cluster.time = MIDNIGHT + HOUR
    cluster.settle()
    cluster.time = MIDNIGHT + 3 * HOUR
    cluster.settle()
    assert cluster.status.run == "at-20261124t0300z"


def test_a_small_step_back_causes_no_second_run() -> None:
    cluster = SimulatedCluster(time=MIDNIGHT)
    cluster.edit(schedule={"cron": "0 3 * * *"})
    finish_first_run(cluster)
    cluster.time = MIDNIGHT + 3 * HOUR
    finish_first_run(cluster)
    for _ in range(20):
        cluster.time = MIDNIGHT + 3 * HOUR - 60.0
        cluster.settle()
        cluster.advance(90.0)
    assert len(cluster.attempts) == 2


@pytest.mark.parametrize("ahead", [HOUR, DAY])
def test_a_retry_waits_no_longer_than_it_would_have(ahead: float) -> None:
    cluster = SimulatedCluster.running()
    begin = cluster.time
    cluster.time += ahead
    cluster.progress = None
    cluster.finish(1)
    assert cluster.status.next_attempt_time is not None
    cluster.time = begin + 60.0
    cluster.settle()
    wait = (cluster.status.next_attempt_time or cluster.time) - cluster.time
    assert wait <= 60.0
    cluster.advance(max(wait, 0.0) + 1.0)
    assert len(cluster.attempts) == 2


def test_a_run_due_by_a_wrong_clock_starts_now() -> None:
    cluster = SimulatedCluster(time=MIDNIGHT)
    finish_first_run(cluster)
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.time += DAY
    cluster.edit(runId="second")
    cluster.settle()
    cluster.time -= DAY
    cluster.edit(suspend=False)
    cluster.settle()
    assert len(cluster.attempts) == 2


@pytest.mark.parametrize("ahead", [HOUR, DAY])
def test_an_end_in_the_future_is_torn_down_now(ahead: float) -> None:
    cluster = SimulatedCluster.running()
    cluster.time += ahead
    cluster.outcome = DriverOutcome(exit_code=0)
    cluster.end_rayjob()
    cluster.settle()
    assert cluster.attempts["corpus-1"][1].end_time is not None
    cluster.time -= ahead
    cluster.settle()
    cluster.finish_teardown()
    assert cluster.attempts["corpus-1"][1].is_frozen


def test_a_deadline_counts_from_the_step_back_at_the_latest() -> None:
    cluster = SimulatedCluster(time=MIDNIGHT + DAY)
    cluster.edit(deadlines={"attempt": "1h"})
    cluster.launch()
    cluster.settle()
    cluster.time = MIDNIGHT
    cluster.settle()
    cluster.advance(HOUR + 1.0)
    assert str(cluster.attempts["corpus-1"][1].cause) == "DeadlineExceeded"


def test_a_start_dated_in_the_future_times_out_in_time() -> None:
    cluster = SimulatedCluster(time=MIDNIGHT + DAY)
    cluster.settle()
    cluster.time = MIDNIGHT
    cluster.settle()
    cluster.advance(31 * 60.0)
    assert str(cluster.attempts["corpus-1"][1].cause) == "SchedulingTimeout"


def test_progress_is_written_after_a_step_back() -> None:
    cluster = SimulatedCluster.running()
    cluster.time += HOUR
    cluster.progress = Progress(total=10, finished=1, time=cluster.time)
    cluster.settle()
    cluster.time -= HOUR
    cluster.progress = Progress(total=10, finished=5, time=cluster.time)
    cluster.settle()
    assert cluster.status.progress is not None
    assert cluster.status.progress.finished == 5


def test_a_gate_that_was_used_up_in_the_future_opens_in_time() -> None:
    gate = DispatchGate(per_minute=1)
    gate.count(HOUR, A)
    turn = gate.look(0.0, A)
    assert not turn.is_open
    assert turn.opens_at == pytest.approx(60.0)
    assert not gate.look(59.0, A).is_open
    assert gate.look(60.0, A).is_open


def test_a_gate_of_a_namespace_opens_in_time_too() -> None:
    gate = DispatchGate(per_minute=2)
    gate.count(HOUR, A)
    gate.count(HOUR, A)
    assert not gate.look(0.0, A, is_alone=False).is_open
    assert gate.look(120.0, A, is_alone=False).is_open


def test_passes_that_are_due_in_the_future_are_due_in_time() -> None:
    schedule = Schedule()
    schedule.enqueue(A, HOUR)
    assert schedule.take(HOUR) == A
    schedule.finish(A, HOUR, HOUR + 30.0, is_promised=True)
    schedule.enqueue(B, HOUR)
    assert schedule.take(HOUR) == B
    schedule.fail(B, HOUR)
    # The clock is set back an hour, and new events still get a pass soon.
    assert schedule.take(0.0) is None
    assert schedule.next_time is not None
    assert schedule.next_time <= 1.0
    assert schedule.take(1.0) == B
    assert schedule.take(30.0) == A


def test_events_after_a_step_back_are_not_delayed() -> None:
    schedule = Schedule()
    schedule.enqueue(A, HOUR)
    assert schedule.take(HOUR) == A
    schedule.finish(A, HOUR, HOUR + 300.0)
    schedule.enqueue(A, 10.0)
    assert schedule.take(11.0) == A


def test_a_pass_during_a_step_back_ends_normally() -> None:
    schedule = Schedule()
    schedule.enqueue(A, HOUR)
    assert schedule.take(HOUR) == A
    assert schedule.take(0.0) is None
    assert schedule.longest_silence(5.0) == pytest.approx(5.0)
    schedule.finish(A, 5.0, None)


@pytest.mark.parametrize("is_noticed", [True, False])
@pytest.mark.parametrize("later", [0.0, 30.0])
def test_a_wake_time_requested_before_a_step_back_is_due_in_time(
    later: float, *, is_noticed: bool
) -> None:
    """The pass requested a wake-up by the old clock, and its write causes no event."""
    schedule = Schedule()
    schedule.enqueue(A, HOUR)
    assert schedule.take(HOUR) == A
    if is_noticed:
        assert schedule.take(0.0) is None
    schedule.finish(A, 0.5, HOUR + later)
    assert schedule.take(later - 1.0) is None
    assert schedule.take(later + 2.0) == A
    # The wake time of the next pass uses the new clock.
    schedule.finish(A, later + 2.0, later + 20.0)
    assert schedule.take(later + 19.0) is None
    assert schedule.take(later + 20.0) == A


def test_a_queue_continues_after_a_step_back() -> None:
    now, begun = [HOUR], list[Key]()

    async def run(key: Key) -> PassResult:
        begun.append(key)
        return PassResult(wake_at=now[0] + 60.0)

    async def story() -> None:
        queue = Queue(run, concurrency=1, clock=lambda: now[0], watcher=_Deaf())
        task = asyncio.create_task(queue.run())
        queue.enqueue(A)
        await until(lambda: len(begun) == 1)
        now[0] = 0.0
        queue.enqueue(A)
        now[0] = 1.0
        queue.enqueue(B)
        await until(lambda: len(begun) == 3)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(story())
    assert set(begun) == {A, B}


class _Deaf:
    def note_pass(self, seconds: float, outcome: str) -> None:
        """Ignore the pass."""


class Times:
    """The two clocks of a machine: wall clock and monotonic clock."""

    def __init__(self, wall: float) -> None:
        self.wall, self.run = wall, 100.0

    def go_on(self, seconds: float) -> None:
        self.wall += seconds
        self.run += seconds

    def make(self) -> ServerClock:
        return ServerClock(lambda: self.wall, lambda: self.run)


DATE = "Tue, 24 Nov 2026 00:00:00 GMT"


@pytest.mark.parametrize("ahead", [31 * 60.0, -31 * 60.0, DAY, -DAY])
def test_the_operator_uses_the_servers_time(ahead: float) -> None:
    times = Times(MIDNIGHT + ahead)
    clock = times.make()
    clock.compare(DATE, times.run)
    assert clock() == pytest.approx(MIDNIGHT, abs=1.0)
    times.go_on(30.0)
    assert clock() == pytest.approx(MIDNIGHT + 30.0, abs=1.0)


def test_setting_the_machines_clock_has_no_effect() -> None:
    times = Times(MIDNIGHT)
    clock = times.make()
    clock.compare(DATE, times.run)
    times.wall += DAY
    assert clock() == pytest.approx(MIDNIGHT)


def test_synchronized_clocks_are_not_corrected() -> None:
    times = Times(MIDNIGHT + 3.7)
    clock = times.make()
    clock.compare(DATE, times.run)
    assert clock() == MIDNIGHT + 3.7


def test_a_slow_response_does_not_correct_the_clock() -> None:
    times = Times(MIDNIGHT - 25.0)
    clock, asked = times.make(), times.run
    times.go_on(28.0)
    clock.compare(DATE, asked)
    assert clock() == MIDNIGHT + 3.0


def test_an_invalid_date_is_ignored() -> None:
    times = Times(MIDNIGHT)
    clock = times.make()
    for text in ("", "soon", "Tue, 99 Nov 2026 00:00:00 GMT", "24 Nov 99999 00:00:00 GMT"):
        clock.compare(text, times.run)
    assert clock() == MIDNIGHT


@pytest.mark.parametrize(("status", "is_taken"), [(200, True), (403, True), (503, False)])
def test_a_response_of_the_server_sets_the_clock(status: int, is_taken: bool) -> None:
    times = Times(MIDNIGHT + HOUR)
    clock = times.make()

    async def story() -> None:
        async with serve() as stub:
            api = KubernetesApi(Configuration(host=stub.url), agent="tests/1", clock=clock)
            stub.answer({}, status, Date=DATE)
            try:
                await api.get(Resource.POD, "team", "a")
            except ApiError:
                assert status != 200
            finally:
                await api.close()

    asyncio.run(story())
    assert (clock() < MIDNIGHT + 60.0) is is_taken


@pytest.mark.parametrize("ahead", [HOUR, -HOUR])
@pytest.mark.parametrize(
    ("date", "created", "is_taken"),
    [
        ("", "2026-11-24T00:00:00Z", True),
        ("", "soon", False),
        ("", None, False),
        # The Date header takes precedence, although it is later by the duration of the request.
        (DATE, "2026-11-25T00:00:00Z", True),
    ],
)
def test_created_objects_set_the_clock_if_responses_have_no_date(
    ahead: float, date: str, created: object, *, is_taken: bool
) -> None:
    times = Times(MIDNIGHT + ahead)
    clock = times.make()

    async def story() -> None:
        async with serve() as stub:
            api = KubernetesApi(Configuration(host=stub.url), agent="tests/1", clock=clock)
            stub.answer({"metadata": {"creationTimestamp": created}}, 201, Date=date)
            await api.create(Resource.EVENT, "team", {})
            await api.close()

    asyncio.run(story())
    assert (abs(clock() - MIDNIGHT) < 60.0) is is_taken


def test_objects_created_earlier_do_not_set_the_clock() -> None:
    """Only an object that the request created sets the clock."""
    times = Times(MIDNIGHT + HOUR)
    clock = times.make()

    async def story() -> None:
        async with serve() as stub:
            api = KubernetesApi(Configuration(host=stub.url), agent="tests/1", clock=clock)
            stub.answer({"metadata": {"creationTimestamp": "2026-11-24T00:00:00Z"}}, 200, Date="")
            await api.get(Resource.POD, "team", "a")
            await api.close()

    asyncio.run(story())
    assert clock() == MIDNIGHT + HOUR
