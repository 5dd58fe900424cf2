"""A model server in a worker dies, then its pod; no request with a stored answer is repeated."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from proving_ground.cluster.kube import Json
from proving_ground.ground import Ground
from proving_ground.pipelines import OUTPUT
from proving_ground.results.figures import Figures
from proving_ground.story import Story

pytestmark = pytest.mark.extended

COUNT, AT_ONCE = 48, 2
# Maximum number of repeated requests: an answer is durable after a second, so the most recent
# answers and the requests in flight are lost.
LOST = 4 * AT_ONCE


def _render(ground: Ground) -> Json:
    """Render a pipeline that queries a model server inside the worker for each row."""
    manifest = ground.render("asked")
    spec = manifest["spec"]
    spec["source"]["with"]["count"] = COUNT
    command = ["python", "/opt/stages/echo_model.py", "{port}", "{name}", OUTPUT]
    ask = {
        "serve": {"engine": "command", "model": "weights", "command": command},
        "model": "echo",
        "prompt": "{{ text }}",
        "concurrency": AT_ONCE,
        "requests": f"{OUTPUT}/requests",
    }
    spec["stages"] += [{"use": "tide:Rows"}, {"use": "ask-model", "batchSize": 4, "with": ask}]
    spec["sink"] = {"use": "jsonl"}
    return manifest


def test_a_served_model_that_dies(ground: Ground, figures: Figures) -> None:
    folder = ground.output.folder
    if folder is None:
        pytest.skip("what the model was asked for is looked at in a folder of the node")
    story = Story(ground.kube, "asked")
    story.begin(_render(ground))
    _wait_for_asked(story, folder, COUNT // 4)
    (pod,) = story.pods("worker", 1)
    name = pod["metadata"]["name"]
    server = (folder / "served-by").read_text().split()[-1]
    ground.kube.call("exec", name, "-c", "ray-worker", "--", "/bin/sh", "-c", f"kill -9 {server}")
    _wait_for_asked(story, folder, COUNT // 2)
    assert len((folder / "served-by").read_text().split()) == 2
    ground.kube.delete("pod", name, "--grace-period=0", "--force")
    assert story.wait_for_end()["status"] == "True", story.describe()

    assert [attempt["spec"]["number"] for attempt in story.attempts] == [1], story.describe()
    files = (path.read_text() for path in folder.rglob("*.jsonl"))
    rows = [json.loads(line) for text in files for line in text.splitlines()]
    texts = {f"tide {number}" for number in range(COUNT)}
    assert sorted(row["answer"] for row in rows) == sorted(texts)
    asked = _read_asked(folder)
    assert set(asked) == texts
    assert asked.total() - COUNT <= AT_ONCE + LOST, asked
    figures.note_absorbed("a served model is killed, and then its pod", ground)


def _wait_for_asked(story: Story, folder: Path, number: int) -> None:
    what = f"the model was asked {number} times"
    story.wait_until(what, lambda: _read_asked(folder).total() >= number, 300)


def _read_asked(folder: Path) -> Counter[str]:
    path = folder / "asked"
    return Counter(path.read_text().splitlines()) if path.exists() else Counter()
