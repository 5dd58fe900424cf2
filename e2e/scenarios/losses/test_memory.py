"""The kernel kills a process for memory; the next attempt has more and skips finished work."""

from __future__ import annotations

import pytest

from proving_ground.cluster.kube import Json
from proving_ground.ground import Ground
from proving_ground.pipelines import KERNEL_ONLY, OUTPUT
from proving_ground.results.figures import Figures
from proving_ground.results.records import Expectation, Records

COUNT, CULPRIT = 40, 25
# Together with Ray's own memory, these exceed the first pod's limit, but not that of a larger pod.
WORKER_MEBIBYTES, DRIVER_MEBIBYTES = 1020, 1100
TWICE: Json = {"oom": {"memoryFactor": 2}}
WORK: Json = {"use": "tide:Work", "with": {"seconds": 0.4}}
ABSORBED = Expectation(
    "worker-out-of-memory-absorbed",
    "A worker runs out of memory, and the attempt goes on",
    "WorkerLost",
    "WorkerLost",
    'strandline_workers_lost_total{cause="OOMKilled"}',
)


def _grow(**more: object) -> Json:
    given = {"number": CULPRIT, "mebibytes": WORKER_MEBIBYTES, "shared": True, **more}
    return {"use": "tide:Grow", "with": given}


def test_a_worker_killed_for_memory(ground: Ground, figures: Figures, records: Records) -> None:
    story = ground.begin("corpus", count=COUNT, stages=[WORK, _grow()], env=KERNEL_ONLY, spec=TWICE)
    assert story.wait_for_cause(1, 400) == "OOMKilled", story.describe()
    evidence = story.attempt(1)["status"]["evidence"]
    killed = next(record for record in evidence if record["cause"] == "OOMKilled")
    assert killed["time"]
    assert killed["details"]["pod"].startswith("corpus-1-")
    assert killed["details"]["container"] == "ray-worker"
    assert killed["details"]["exitCode"] in {1, 137}
    records.take(ground, story, "worker-out-of-memory", "A worker runs out of memory")
    assert story.wait_for_end()["status"] == "True", story.describe()
    assert story.attempt(2)["spec"]["memory"] == {"small": "2048Mi"}
    past = ground.look_back(story)
    assert past.finished
    assert past.finished.isdisjoint(past.second)
    assert story.status["progress"]["text"] == f"{COUNT}/{COUNT}"
    figures.note("a worker pod is killed for memory", story, past)


@pytest.mark.extended
def test_a_worker_killed_for_memory_and_absorbed(
    ground: Ground, figures: Figures, records: Records
) -> None:
    story = ground.begin(
        "corpus",
        count=COUNT,
        stages=[WORK, _grow(once=f"{OUTPUT}/grown")],
        env=KERNEL_ONLY,
        spec={"onWorkerLoss": {"oom": "Absorb"}},
    )
    assert story.wait_for_end()["status"] == "True", story.describe()
    assert [attempt["spec"]["number"] for attempt in story.attempts] == [1]
    assert story.attempt(1)["status"]["incidents"] == 1
    assert story.status["progress"]["text"] == f"{COUNT}/{COUNT}"
    records.show(ground, story, ABSORBED)
    figures.note_absorbed("a worker pod is killed for memory, Absorb", ground)


def test_a_driver_killed_for_memory(ground: Ground, figures: Figures, records: Records) -> None:
    source = {"use": "tide:Numbers", "with": {"count": COUNT, "mebibytes": DRIVER_MEBIBYTES}}
    story = ground.begin("corpus", stages=[WORK], env=KERNEL_ONLY, spec={"source": source})
    assert story.wait_for_cause(1, 400) == "OOMKilled", story.describe()
    records.take(ground, story, "driver-out-of-memory", "The driver runs out of memory")
    assert story.wait_for_end()["status"] == "True", story.describe()
    assert story.attempt(2)["spec"]["memory"] == {"head": "2304Mi"}
    past = ground.look_back(story)
    assert past.finished.isdisjoint(past.second)
    figures.note("the driver is killed for memory", story, past)
