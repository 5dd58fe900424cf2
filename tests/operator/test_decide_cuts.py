"""A kill of the operator before any of its calls does not change how a run ends.

The first test tier tries some calls of each story. The third tier tries every call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from example_counts import scale_examples, spread
from simulated_cluster import SimulatedCluster
from strandline_api.outcome.driver_outcome import DriverOutcome, SourceCounts
from strandline_operator.model.plan import Resource

Story = Callable[[SimulatedCluster], None]


def run(cluster: SimulatedCluster, code: int = 0, **more: Any) -> None:
    """Run the due attempt until it ends in the given way."""
    due = cluster.status.next_attempt_time
    cluster.time = max(cluster.time, due or 0.0)
    cluster.settle()
    cluster.start_rayjob()
    cluster.settle()
    cluster.outcome = DriverOutcome(exit_code=code, **more)
    cluster.settle()
    cluster.finish_teardown()


def complete_after_failures(cluster: SimulatedCluster) -> None:
    cluster.settle()
    run(cluster, 1)
    run(cluster, 75)
    run(cluster, 137, sources=SourceCounts(finished=5), remaining=10)
    run(cluster)


def use_up_the_retries(cluster: SimulatedCluster) -> None:
    cluster.settle()
    for _ in range(4):
        run(cluster, 1)


def kill_for_memory(cluster: SimulatedCluster) -> None:
    cluster.settle()
    cluster.start_rayjob()
    cluster.settle()
    end = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
    cluster.set_pod("cpu", containerStatuses=[{"name": "ray-worker", "state": end}])
    cluster.settle()
    cluster.finish_teardown()
    run(cluster)


def suspend_and_resume(cluster: SimulatedCluster) -> None:
    cluster.settle()
    cluster.start_rayjob()
    cluster.settle()
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.finish_teardown()
    cluster.edit(suspend=False)
    run(cluster)


def be_taken_back_by_a_queue(cluster: SimulatedCluster) -> None:
    cluster.edit(ray={"queueName": "nightly", "workerGroups": [{"name": "cpu"}]})
    cluster.settle()
    cluster.start_rayjob()
    cluster.settle()
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    rayjob["spec"]["suspend"] = True
    rayjob["status"]["jobDeploymentStatus"] = "Suspending"
    cluster.settle()
    cluster.finish_teardown()
    assert len(cluster.list_of(Resource.RAYJOB)) == 1
    run(cluster)


def retry_by_hand_and_run_again(cluster: SimulatedCluster) -> None:
    cluster.settle()
    run(cluster, 64)
    cluster.annotate("retry", "one")
    run(cluster)
    cluster.edit(runId="second")
    run(cluster)


def cancel(cluster: SimulatedCluster) -> None:
    cluster.settle()
    cluster.start_rayjob()
    cluster.settle()
    cluster.annotate("cancel", "enough")
    cluster.settle()
    cluster.finish_teardown()
    cluster.advance(10_000)


def cancel_while_it_goes(cluster: SimulatedCluster) -> None:
    cluster.settle()
    cluster.start_rayjob()
    cluster.settle()
    cluster.outcome = DriverOutcome(exit_code=1)
    cluster.settle()
    cluster.annotate("cancel", "enough")
    cluster.settle()
    cluster.finish_teardown()
    cluster.advance(10_000)


def cancel_and_think_again(cluster: SimulatedCluster) -> None:
    cluster.settle()
    cluster.start_rayjob()
    cluster.settle()
    cluster.annotate("cancel", "enough")
    cluster.settle()
    cluster.annotate("retry", "after all")
    cluster.settle()
    cluster.finish_teardown()
    run(cluster)


def come_after_another(cluster: SimulatedCluster) -> None:
    other = cluster.others["raw"] = SimulatedCluster()
    other.pipeline["metadata"] |= {"name": "raw", "uid": "uid-raw"}
    cluster.edit(after=[{"name": "raw"}])
    cluster.settle()
    assert not cluster.attempts
    other.settle()
    other.run_next()
    other.finish()
    cluster.settle()
    run(cluster, 1)
    other.edit(runId="second")
    run(cluster)
    cluster.edit(runId="second")
    cluster.settle()
    assert len(cluster.attempts) == 2
    other.settle()
    other.run_next()
    other.finish()
    cluster.settle()
    run(cluster)


STORIES: list[Story] = [
    come_after_another,
    complete_after_failures,
    use_up_the_retries,
    kill_for_memory,
    suspend_and_resume,
    be_taken_back_by_a_queue,
    retry_by_hand_and_run_again,
    cancel,
    cancel_while_it_goes,
    cancel_and_think_again,
]


SOME = scale_examples(50)  # a story with a kill takes 50 ms


def summarise(cluster: SimulatedCluster) -> dict[str, Any]:
    """Return the facts that must not depend on the moment of the kill."""
    status = cluster.status
    return {
        "attempts": {
            name: (body["spec"], attempt.cause, attempt.is_frozen)
            for name, (body, attempt) in cluster.attempts.items()
        },
        "retries": status.retries,
        "phase": status.phase,
        "history": [(attempt.number, attempt.cause) for attempt in status.attempts],
        "memory": status.memory,
        "next": status.next_attempt_time,
        "conditions": {
            condition.type: (condition.status, condition.reason) for condition in status.conditions
        },
        "left": [key for key in cluster.objects if key[0] in {Resource.RAYJOB, Resource.POD}],
        "finalizers": cluster.pipeline["metadata"].get("finalizers", []),
    }


def tell(
    story: Story, cut_at: int | None, whole: SimulatedCluster | None = None
) -> SimulatedCluster:
    cluster = SimulatedCluster(cut_at=cut_at, known=whole.plans if whole else [])
    story(cluster)
    return cluster


@pytest.mark.parametrize(
    "most", [pytest.param(SOME, id="some"), pytest.param(None, id="every", marks=pytest.mark.full)]
)
@pytest.mark.parametrize("story", STORIES, ids=lambda story: str(story.__name__))
def test_a_kill_before_any_call_changes_nothing_in_the_end(story: Story, most: int | None) -> None:
    whole = tell(story, None)
    assert whole.calls > 15
    for cut_at in spread(range(1, whole.calls + 1), most or whole.calls):
        cut = tell(story, cut_at, whole)
        assert cut.cuts == 1, cut_at
        assert summarise(cut) == summarise(whole), cut_at
        assert cut.most_running <= 1, cut_at


@pytest.mark.parametrize("story", STORIES, ids=lambda story: str(story.__name__))
def test_no_story_runs_two_attempts_at_once(story: Story) -> None:
    assert tell(story, None).most_running == 1
