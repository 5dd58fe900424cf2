"""Runs that start automatically: after another pipeline, and on a schedule."""

from __future__ import annotations

from datetime import datetime

import pyarrow.parquet as pq
import pytest

from proving_ground.cluster.kube import Json
from proving_ground.ground import Ground
from proving_ground.story import PIPELINE, Story

pytestmark = pytest.mark.extended

COUNT, EARLY = 60, 8
WORK: Json = {"use": "tide:Work", "with": {"seconds": 0.5}}
# Interval of the schedule. A run takes a minute here, so each run ends before the next is due.
EACH_SECONDS = 180
CLOCK: Json = {"cron": f"*/{EACH_SECONDS // 60} * * * *"}


def _render_second(ground: Ground) -> Json:
    """Render a second pipeline that reads the files of the first."""
    manifest = ground.render("second")
    manifest["spec"]["source"] = {
        "use": "files",
        "with": {"paths": [{"pipeline": "first", "files": "**/*.txt"}]},
    }
    manifest["spec"]["stages"] = [{"use": "read-files"}]
    manifest["spec"]["sink"] = {"use": "parquet"}
    return manifest


def test_a_second_pass_begins_when_the_first_has_succeeded(ground: Ground) -> None:
    manifest = ground.render("first")
    manifest["spec"]["source"]["with"]["count"] = COUNT
    manifest["spec"]["stages"].append(WORK)
    first, second = Story(ground.kube, "first"), Story(ground.kube, "second")
    # Apply both pipelines from one file, the dependent pipeline first.
    ground.kube.apply(_render_second(ground), manifest)
    first.wait_for_finished(EARLY)
    with ground.held():
        first.kill_head(1)
        waiting = second.condition("Succeeded")
        assert (waiting["status"], waiting["reason"]) == ("Unknown", "WaitsForPipelines")
        assert ("first" in second.status["state"], second.attempts) == (True, []), second.describe()
    assert first.wait_for_end()["status"] == "True", first.describe()
    assert [attempt["spec"]["number"] for attempt in first.attempts] == [1, 2]
    assert second.wait_for_end()["status"] == "True", second.describe()
    assert second.status["progress"]["text"] == f"{COUNT}/{COUNT}"
    (attempt,) = second.attempts
    ended = first.condition("Succeeded")["lastTransitionTime"]
    assert _read_time(attempt["metadata"]["creationTimestamp"]) >= _read_time(ended)
    assert f"verified: {COUNT} finished sources" in ground.verify(second)
    _check_contents(ground)


def _check_contents(ground: Ground) -> None:
    if ground.output.folder is None:  # only pods can read the volume
        return
    tables = [pq.read_table(path) for path in ground.output.folder.rglob("*.parquet")]
    contents = [content for table in tables for content in table["content"].to_pylist()]
    assert sorted(f"{number}\n".encode() for number in range(COUNT)) == sorted(contents)


def _read_time(text: str) -> datetime:
    """Parse a time, and cut it to whole seconds, the precision of Kubernetes creation times."""
    return datetime.fromisoformat(text).replace(microsecond=0)


def test_a_schedule_begins_runs_one_after_another_until_it_is_suspended(ground: Ground) -> None:
    story = ground.begin("nightly", count=4, spec={"schedule": CLOCK})
    assert story.wait_for_end()["status"] == "True", story.describe()
    story.wait_for_phase(2, "Succeeded", EACH_SECONDS + 240)
    story.wait_for_phase(3, "Succeeded", EACH_SECONDS + 240)
    ground.kube.patch(PIPELINE, story.name, {"spec": {"suspend": True}})
    story.wait_until("a run is left out", lambda: _count_missed(story), EACH_SECONDS + 60)
    first, *clocked = story.attempts
    runs = [attempt["spec"]["run"] for attempt in clocked]
    assert len(set(runs)) == len(clocked) == 2, story.describe()
    assert all(run.startswith("at-") for run in runs)
    assert not first["spec"]["run"].startswith("at-")
    for before, after in zip(story.attempts, clocked, strict=False):
        ended, begun = before["status"]["endTime"], after["metadata"]["creationTimestamp"]
        assert _read_time(begun) >= _read_time(ended), story.describe()
    assert "ScheduleMissed" in ground.kube.call("get", "events")


def _count_missed(story: Story) -> int:
    return int((story.status.get("schedule") or {}).get("missed", 0))
