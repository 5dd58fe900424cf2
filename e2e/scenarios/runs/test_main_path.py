"""An example pipeline runs to its end on a real node, and its output is verified."""

from __future__ import annotations

from pathlib import Path

import yaml

from proving_ground.ground import Ground
from proving_ground.results.figures import Figures
from proving_ground.results.records import Expectation, Records
from proving_ground.story import Story

EXAMPLE = Path(__file__).parents[3] / "pipelines" / "examples" / "python-functions.yaml"
CLUSTER_FIELDS = ("storage", "checkpoint", "deadlines", "ray", "retry")

COMPLETED = Expectation(
    "completed",
    "Nothing fails",
    "Completed",
    "RunSucceeded",
    'strandline_attempts_total{cause="Completed"}',
)


def test_the_main_example(ground: Ground, records: Records, figures: Figures) -> None:
    example = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    cluster = ground.render(example["metadata"]["name"])["spec"]
    example["spec"] |= {name: cluster[name] for name in CLUSTER_FIELDS}
    # Each stage has its own process, so a worker needs more memory.
    example["spec"]["ray"]["workerGroups"][0]["resources"]["memory"] = "3Gi"
    story = Story(ground.kube, example["metadata"]["name"])
    story.begin(example)
    assert story.wait_for_end()["status"] == "True", story.describe()
    progress = story.status["progress"]
    assert progress["finished"] == progress["total"] > 0
    assert [attempt["spec"]["number"] for attempt in story.attempts] == [1]
    records.show(ground, story, COMPLETED)
    assert f"verified: {progress['total']} finished sources" in ground.verify(story)
    figures.note_end("nothing fails", "Completed")
