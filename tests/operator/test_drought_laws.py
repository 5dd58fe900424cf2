"""No lack of nodes ends a run or costs a retry, however long and complete the shortage is."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from example_counts import scale_examples
from simulated_cluster import SimulatedCluster
from strandline_api.outcome.causes import Cause, Treatment
from strandline_api.status.enums import PipelinePhase
from strandline_operator.model.plan import Resource
from test_droughts import BACKOFF, FULL, NO_SUCH_NODE, STOCK_OUT, newest, start_dry, unplace
from test_spot_fallback import spot

TARGET = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
NEWS = {
    "full": ("NotTriggerScaleUp", BACKOFF),
    "dry": ("FailedScaleUp", STOCK_OUT),
    "coming": ("TriggeredScaleUp", "pod triggered scale-up: [{spot 0->1 (max: 9)}]"),
    "limit": (
        "FailedScheduling",
        'Failed to schedule pod, all available instance types exceed limits for nodepool "spot"',
    ),
}
# Events and their durations in seconds. The autoscaler emits an event every few minutes.
STEPS = st.lists(
    st.tuples(st.sampled_from([*NEWS, "away", "taken"]), st.integers(1, 24).map(lambda n: n * 150)),
    min_size=1,
    max_size=25,
)


def start_pods(cluster: SimulatedCluster, words: str) -> None:
    """Make the pods of a new attempt as KubeRay does. The autoscaler fails to add a node."""
    if any("status" not in rayjob for rayjob in cluster.list_of(Resource.RAYJOB)):
        cluster.start_rayjob()
        cluster.end_rayjob("Initializing", "")
        unplace(cluster, "", words)
        speak(cluster, "dry")


def speak(cluster: SimulatedCluster, news: str) -> None:
    for pod in cluster.list_of(Resource.POD):
        cluster.warn("Pod", pod["metadata"]["name"], *NEWS[news])


def play(cluster: SimulatedCluster, step: str, seconds: float, words: str) -> None:
    if step == "away":
        cluster.restart(seconds)
        cluster.settle()
    elif step == "taken":
        take_node(cluster)
    else:
        speak(cluster, step)
        for _ in range(int(seconds) // 150):
            cluster.advance(150.0)
            cluster.sweep()
            cluster.settle()
            start_pods(cluster, words)


def take_node(cluster: SimulatedCluster) -> None:
    """Give the pods nodes, start the driver, and reclaim the head's node a moment later."""
    if not cluster.list_of(Resource.POD):
        return
    for pod in cluster.list_of(Resource.POD):
        pod["spec"]["nodeName"], pod["status"] = "node-1", {"phase": "Running"}
    cluster.end_rayjob("Running", "RUNNING")
    cluster.advance(30.0)
    cluster.set_pod("head", phase="Failed", conditions=[TARGET])
    cluster.end_rayjob("Failed", "FAILED", reason="AppFailed", message="lost")
    cluster.settle()
    cluster.finish_teardown()
    cluster.advance(max(0.0, (cluster.status.next_attempt_time or 0.0) - cluster.time))


@given(steps=STEPS, words=st.sampled_from([FULL, NO_SUCH_NODE]), fallback=st.booleans())
@settings(max_examples=scale_examples(15))
def test_law_no_drought_ends_a_run_or_costs_a_retry(
    steps: list[tuple[str, int]], words: str, fallback: bool
) -> None:
    wanted: dict[str, Any] = (
        spot(afterNoRoom="2h", afterDisruptions=3) if fallback else {"preset": "gke"}
    )
    ray = {"head": {"spot": wanted}, "workerGroups": [{"name": "cpu", "spot": wanted}]}
    cluster = start_dry(words, ray=ray)
    play(cluster, "dry", 300, words)
    for step, seconds in steps:
        play(cluster, step, seconds, words)
        start_pods(cluster, words)
    assert cluster.status.phase is not PipelinePhase.FAILED
    assert cluster.status.retries is None or cluster.status.retries.retries == 0
    causes = [past.cause for past in cluster.status.attempts]
    assert all(cause is not None and cause.treatment is Treatment.DISRUPTION for cause in causes)
    assert newest(cluster).cause is not Cause.SCHEDULING_TIMEOUT
    assert cluster.most_running <= 1
