"""A mixture of two data sets is published once, even if the driver dies before the commit."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from proving_ground.cluster.kube import Json
from proving_ground.ground import Ground
from proving_ground.pipelines import OUTPUT
from proving_ground.results.figures import Figures
from proving_ground.story import Story

pytestmark = pytest.mark.extended

COUNT = 12
PARTS = ("sea", "river")
TARGET = "published"
# Kill the driver when the target has all files of the data set but not the pointer to them.
FAULT = {"STRANDLINE_FAULT": "push.described:kill", "STRANDLINE_FAULT_LOG": f"{OUTPUT}/killed.log"}


def _render_part(ground: Ground, name: str) -> Json:
    """Render a pipeline that shuffles rows into partitions, as an input of the mixture."""
    manifest = ground.render(name)
    spec = manifest["spec"]
    spec["source"]["with"]["count"] = COUNT
    spec["stages"].append({"use": "tide:Rows"})
    spec["sink"] = {"use": "shuffle", "with": {"by": "key", "seed": 7, "partitions": 2}}
    return manifest


def _render_mixture(ground: Ground) -> Json:
    """Render the pipeline that mixes both data sets and publishes the result."""
    manifest = ground.render("mixture")
    spec = manifest["spec"]
    parts = {
        name: {"weight": 1, "paths": [{"pipeline": name, "files": "**/*.parquet"}]}
        for name in PARTS
    }
    spec["source"] = {"use": "mix", "with": {"parts": parts, "budget": {"rows": COUNT}, "seed": 7}}
    spec["stages"] = [{"use": "read-mix"}]
    spec["sink"] = {"use": "parquet"}
    spec["publish"] = {"require": {"rows": {"min": COUNT}}, "to": f"{OUTPUT}/{TARGET}"}
    (container,) = spec["ray"]["head"]["podTemplate"]["spec"]["containers"]
    container["env"] += [{"name": name, "value": value} for name, value in FAULT.items()]
    return manifest


def test_a_driver_killed_between_files_and_commit(ground: Ground, figures: Figures) -> None:
    folder = ground.output.folder
    if folder is None:
        pytest.skip("what is published is looked at in a folder of the node")
    story = Story(ground.kube, "mixture")
    ground.kube.apply(*(_render_part(ground, name) for name in PARTS), _render_mixture(ground))
    assert story.wait_for_end(900)["status"] == "True", story.describe()
    assert (folder / "killed.log").read_text().startswith("push.described kill")
    assert [attempt["spec"]["number"] for attempt in story.attempts] == [1, 2], story.describe()

    target = folder / TARGET
    revision = json.loads((target / "latest.json").read_bytes())["revision"]
    assert [path.parent.name for path in target.glob("*/strandline.json")] == [revision]
    files = map(pq.ParquetFile, (target / revision).rglob("*.parquet"))
    rows = [row for file in files for row in file.read(["part", "key"]).to_pylist()]
    assert len(rows) == len({(row["part"], row["key"]) for row in rows}) == COUNT
    published = story.condition("Published")
    assert published["status"] == "True", story.describe()
    assert revision in published["message"]
    cause = story.attempt(1)["status"]["cause"]
    figures.note_end("the driver is killed between files and commit", f"{cause}, then Completed")
