"""The kernel ends what has too little memory: the next attempt has more, and skips what is done."""

from __future__ import annotations

from pathlib import Path

from proving_ground.figures import Figures
from proving_ground.ground import Ground
from proving_ground.kube import Json
from proving_ground.pipelines import OUTPUT
from proving_ground.records import keep, take_record

COUNT, CULPRIT = 40, 25
# Beside what Ray itself takes: too much for the pod at first, and not for one half as large again.
WORKER_MEBIBYTES, DRIVER_MEBIBYTES = 700, 1100
# Ray's own watch may be quicker than the kernel; these are about the kernel.
KERNEL_ONLY: Json = {"env": [{"name": "RAY_memory_monitor_refresh_ms", "value": "0"}]}
WORK: Json = {"use": "tide:Work", "with": {"seconds": 0.4}}


def _grow(**more: object) -> Json:
    given = {"number": CULPRIT, "mebibytes": WORKER_MEBIBYTES, "shared": True, **more}
    return {"use": "tide:Grow", "with": given}


def test_a_worker_killed_for_memory(
    ground: Ground, figures: Figures, records: tuple[Path, bool]
) -> None:
    story = ground.begin("corpus", count=COUNT, stages=[WORK, _grow()])
    assert story.wait_for_cause(1, 240) == "OOMKilled", story.tell()
    evidence = story.attempt(1)["status"]["evidence"]
    killed = next(one for one in evidence if one["cause"] == "OOMKilled")
    assert killed["pod"]
    assert killed["container"] == "ray-worker"
    assert killed["exitCode"] in {1, 137}
    assert killed["time"]
    page = take_record(story, "A worker runs out of memory", __doc__ or "")
    assert story.wait_for_end(300)["status"] == "True", story.tell()
    assert story.attempt(2)["spec"]["memory"]["small"] == str(1536 << 20)
    finished = story.status["attempts"][0]["finished"]
    assert finished > 0
    again = ground.opened_again(1, 2)
    assert len(again) <= COUNT - finished
    assert story.status["progress"]["finished"] == COUNT
    figures.note("a worker pod is killed for memory", ground, story)
    keep(records[0], "worker-out-of-memory", page, is_update=records[1])


def test_a_worker_killed_for_memory_and_absorbed(ground: Ground, figures: Figures) -> None:
    story = ground.begin(
        "corpus",
        count=COUNT,
        stages=[WORK, _grow(once=f"{OUTPUT}/grown")],
        spec={"onWorkerLoss": {"oom": "Absorb"}},
    )
    assert story.wait_for_end(300)["status"] == "True", story.tell()
    assert [one["spec"]["number"] for one in story.attempts] == [1]
    assert story.attempt(1)["status"]["incidents"] == 1
    assert story.status["progress"]["finished"] == COUNT
    figures.note_absorbed("a worker pod is killed for memory, Absorb", ground)


def test_a_driver_killed_for_memory(
    ground: Ground, figures: Figures, records: tuple[Path, bool]
) -> None:
    source = {"use": "tide:Numbers", "with": {"count": COUNT, "mebibytes": DRIVER_MEBIBYTES}}
    story = ground.begin("corpus", stages=[WORK], spec={"source": source})
    assert story.wait_for_cause(1, 240) == "OOMKilled", story.tell()
    page = take_record(story, "The driver runs out of memory", __doc__ or "")
    assert story.wait_for_end(300)["status"] == "True", story.tell()
    assert int(story.attempt(2)["spec"]["memory"]["head"]) > 1536 << 20
    figures.note("the driver is killed for memory", ground, story)
    keep(records[0], "driver-out-of-memory", page, is_update=records[1])
