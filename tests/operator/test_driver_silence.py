"""An unreachable driver ends an attempt only after a long silence.

Time before the operator's first request does not count.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_api import FakeApi
from operator_bodies import KEY, NAMESPACE, make_attempt, make_pipeline, make_pod, make_rayjob
from played_operator import Operator
from simulated_cluster import SimulatedCluster
from strandline_api.outcome.causes import Cause
from strandline_api.status.event_reasons import EventReason
from strandline_api.status.pipeline_status import Progress
from strandline_api.status.reasons import ConditionType
from strandline_operator.model.limits import Limits
from strandline_operator.model.plan import Resource
from strandline_operator.model.view import Silence
from strandline_operator.reconcile.drivers.dialogue import LONGEST_PAUSE

URL = "http://10.0.0.7:8780"
STALL = 600.0
HOURS = 3 * 3600.0
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


@pytest.fixture
def cluster() -> SimulatedCluster:
    """Return a running attempt whose driver has answered."""
    cluster = SimulatedCluster.running()
    cluster.set_pod("head", **READY)
    cluster.progress = Progress(finished=1, time=cluster.time)
    cluster.settle()
    return cluster


def find_message(cluster: SimulatedCluster) -> tuple[str, str]:
    found = cluster.status.find_condition(ConditionType.SUCCEEDED)
    assert found is not None
    return found.reason, found.message


def status_of(cluster: SimulatedCluster) -> Any:
    return next(iter(cluster.attempts.values()))[1]


def test_an_outage_of_the_operator_ends_nothing(cluster: SimulatedCluster) -> None:
    cluster.restart(HOURS)
    cluster.silence = cluster.silence.prolong(HOURS, LONGEST_PAUSE)  # the first request fails
    cluster.settle()
    assert status_of(cluster).end_time is None
    cluster.ask_in_vain(STALL - 30)
    assert status_of(cluster).end_time is None
    cluster.silence = Silence()
    cluster.progress = Progress(finished=2, time=cluster.time)
    cluster.advance(60)
    assert find_message(cluster)[0] == "Running"


def test_the_message_names_the_pods_own_port(cluster: SimulatedCluster) -> None:
    (head,) = (pod for pod in cluster.list_of(Resource.POD) if "head" in pod["metadata"]["name"])
    port = {"name": "strandline", "containerPort": 8790}
    head.setdefault("spec", {})["containers"] = [{"name": "ray-head", "ports": [port]}]
    cluster.ask_in_vain(105)
    assert "so the network path to its port 8790 may be blocked" in find_message(cluster)[1]


def test_silence_is_reported_first_and_ends_the_attempt_after_the_stall(
    cluster: SimulatedCluster,
) -> None:
    cluster.ask_in_vain(45)
    assert find_message(cluster)[0] == "Running"
    cluster.ask_in_vain(60)
    reason, message = find_message(cluster)
    assert reason == "DriverNotReached"
    assert (
        "head pod corpus-1-head is Running and Ready, so the network path to its port 8780 may be "
        "blocked" in message
    )
    words = "after 600 s without an answer the attempt ends as Stalled. Check for a NetworkPolicy"
    assert words in message
    assert status_of(cluster).find_condition("Succeeded").message == message
    plan = cluster.pass_once()
    assert (plan.pipeline, plan.attempts) == (None, {})  # one event and one status write
    told = [event for event in cluster.events if event.reason == EventReason.BLOCKED]
    assert [event.message for event in told] == [message]

    cluster.ask_in_vain(STALL - 90)
    assert status_of(cluster).end_time is None
    cluster.ask_in_vain(45)
    cluster.finish_teardown()
    assert status_of(cluster).cause is Cause.STALLED
    assert "so the network path to its port 8780 may be blocked" in status_of(cluster).message


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        ({"conditions": []}, "head pod corpus-1-head is Running but not Ready"),
        ({"phase": "Failed"}, "head pod corpus-1-head is Failed"),
        (None, "there is no head pod"),
    ],
)
def test_the_message_describes_the_head(
    cluster: SimulatedCluster, pod: dict[str, Any] | None, words: str
) -> None:
    if pod is None:
        cluster.lose_pod("head")
        cluster.gone_pods.clear()
    else:
        cluster.set_pod("head", **pod)
    cluster.ask_in_vain(90)
    assert words in find_message(cluster)[1]


def test_a_never_reached_driver_is_reported_and_not_ended() -> None:
    cluster = SimulatedCluster.running()
    cluster.ask_in_vain(120)
    assert "the attempt continues" in find_message(cluster)[1]
    cluster.silence = Silence(10_000, 100_000.0)
    cluster.advance(100_000)
    assert status_of(cluster).end_time is None


def test_a_short_stall_deadline_still_takes_a_minute(cluster: SimulatedCluster) -> None:
    cluster.edit(deadlines={"stall": "5s"})
    cluster.ask_in_vain(60)
    assert status_of(cluster).end_time is None
    cluster.ask_in_vain(30)
    assert status_of(cluster).end_time is not None


PAUSES = st.lists(st.floats(-1e7, 1e7), max_size=40)


@given(PAUSES, st.floats(1.0, 120.0))
def test_law_silence_spans_only_the_requests_and_their_pauses(
    pauses: list[float], longest: float
) -> None:
    silence = Silence()
    for number, pause in enumerate(pauses):
        after = silence.prolong(pause, longest)
        assert silence.seconds <= after.seconds <= longest * number
        assert after.seconds <= sum(max(0.0, one) for one in pauses[1 : number + 1]) + 1e-6
        silence = after
    assert silence.questions == len(pauses)
    assert silence.is_lasting is (silence.questions >= 3 and silence.seconds >= 60)


class Watched:
    """A running attempt and a replaceable operator process. The test starts the passes."""

    def __init__(self, *, heard: bool = True) -> None:
        self.api = FakeApi()
        self.limits = Limits()
        store = self.api.store
        pipeline = make_pipeline(store, deadlines={"stall": "120s"})
        attempt = make_attempt(store, pipeline)
        status = {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}
        make_rayjob(store, pipeline, attempt, status)
        make_pod(store, pipeline, "head", "head", ip="10.0.0.7")
        if heard:
            self.answer()
        self.restart()
        if heard:
            self.look()

    def say(self, deployment: str, job: str) -> None:
        """Set the RayJob's status as KubeRay does."""
        status = {"jobDeploymentStatus": deployment, "jobStatus": job}
        self.api.store.put_status(Resource.RAYJOB, NAMESPACE, "corpus-1", status)

    def answer(self, page: object = None) -> None:
        """Serve the driver's answers from now on."""
        progress = page or {"sources": {"total": 10, "finished": 4}}
        self.api.drivers |= {f"{URL}/progress": progress, f"{URL}/outcome": None}

    def restart(self, outage: float = 0.0) -> None:
        self.api.store.time += outage
        self.operator = Operator(self.api, self.limits)

    def look(self, seconds: float = 0.0) -> None:
        """Run a pass some seconds later."""
        self.api.store.time += seconds
        asyncio.run(self.operator.passes.run(KEY))

    def poll(self, seconds: float) -> None:
        """Run only the poller, some seconds later."""
        self.api.store.time += seconds
        talk = self.operator.passes.inputs.drivers
        for uid in talk.list_due(self.api.store.time):
            asyncio.run(talk.ask(self.api, uid, self.api.store.time))

    @property
    def status(self) -> dict[str, Any]:
        (attempt,) = self.api.store.list(Resource.ATTEMPT)
        status: dict[str, Any] = attempt["status"]
        return status

    @property
    def reason(self) -> str:
        (pipeline,) = self.api.store.list(Resource.PIPELINE)
        conditions = {
            condition["type"]: condition["reason"] for condition in pipeline["status"]["conditions"]
        }
        return str(conditions["Succeeded"])


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_a_new_process_counts_from_its_first_request(watched: Watched) -> None:
    assert watched.status["progress"]["finished"] == 4
    watched.api.drivers.clear()
    watched.restart(HOURS)
    for seconds in (0.0, 20.0, 20.0, 20.0, 20.0, 20.0, 20.0):
        watched.look(seconds)
        assert "endTime" not in watched.status
    watched.look(20.0)  # 140 s since the first request
    assert watched.status["endTime"]


def test_setting_the_clock_ends_nothing(watched: Watched) -> None:
    watched.api.drivers.clear()
    watched.look(20.0)
    for step in (HOURS, -2 * HOURS, HOURS):
        watched.look(step)
        assert "endTime" not in watched.status, step
    watched.answer()
    watched.look(-HOURS)  # the poller adapts to the changed clock
    assert watched.reason == "Running"


def test_a_driver_answering_without_news_is_alive(watched: Watched) -> None:
    watched.api.drivers[f"{URL}/progress"] = None
    for _ in range(40):
        watched.look(30.0)
    assert "endTime" not in watched.status
    assert watched.reason == "Running"


def test_rare_passes_end_a_silence_too(watched: Watched) -> None:
    watched.api.drivers.clear()
    ends = []
    for _ in range(5):
        watched.look(300.0)
        ends.append("endTime" in watched.status)
    assert ends == [False, False, False, True, True]


def test_an_operator_without_network_ends_no_attempt(watched: Watched) -> None:
    """Without a network, no pass completes and no driver answers for hours."""
    watched.api.drivers.clear()
    for _ in range(100):
        watched.poll(60.0)
    watched.answer()
    watched.look(5.0)
    assert "endTime" not in watched.status
    assert watched.reason == "Running"

    watched.api.drivers.clear()
    for _ in range(100):
        watched.poll(60.0)
    watched.look(5.0)  # the driver becomes reachable a little later than the server
    watched.look(5.0)
    assert "endTime" not in watched.status


def test_a_head_that_is_missing_is_silence(watched: Watched) -> None:
    watched.api.store.remove(Resource.POD, NAMESPACE, "head")
    for _ in range(10):
        watched.look(20.0)
    assert watched.status["endTime"]


@pytest.fixture
def starting() -> Watched:
    """Return a head with an address but no driver yet."""
    watched = Watched(heard=False)
    watched.say("Initializing", "")
    watched.look()
    return watched


def count_blocks(watched: Watched) -> int:
    events = watched.api.store.list(Resource.EVENT)
    return sum(event["reason"] == EventReason.BLOCKED for event in events)


@pytest.mark.parametrize("pause", [5.0, 20.0, 60.0])
def test_a_slow_start_is_no_silence(starting: Watched, pause: float) -> None:
    """The steps follow a recorded start of 66 s, from the head's address to RUNNING."""
    for state in (("Initializing", ""), ("Running", ""), ("Running", "PENDING")):
        starting.say(*state)
        for _ in range(4):
            starting.look(pause)
            assert starting.reason != "DriverNotReached", state
            starting.poll(pause)
    starting.say("Running", "RUNNING")
    starting.look(pause)
    assert starting.reason == "Running"
    assert count_blocks(starting) == 0


def test_a_running_unreachable_driver_is_silent_from_its_start(starting: Watched) -> None:
    starting.look(120.0)
    starting.say("Running", "RUNNING")
    for _ in range(4):
        starting.look(15.0)
        assert starting.reason == "Running"
    starting.look(30.0)
    assert starting.reason == "DriverNotReached"
    assert count_blocks(starting) == 1
