"""A pipeline reads from and writes to an S3-compatible server, with keys from a Secret."""

from __future__ import annotations

import json

import pytest

from proving_ground.cluster.kube import Json
from proving_ground.ground import Ground
from proving_ground.object_store import KEYS, SECRET, ObjectStore, render_secret
from proving_ground.pipelines import OPENED, write_elsewhere
from proving_ground.results.figures import Figures
from proving_ground.story import Story

BUCKET, COUNT, EARLY = "corpus", 60, 8


@pytest.fixture
def store(object_store: ObjectStore) -> ObjectStore:
    """Provide an object store with a file per source."""
    for number in range(COUNT):
        line = json.dumps({"id": number}) + "\n"
        object_store.put(BUCKET, f"raw/{number:04}.jsonl", line.encode())
    return object_store


def _render(ground: Ground, keys: str) -> Json:
    manifest = ground.render("corpus")
    spec = manifest["spec"]
    spec["source"] = {"use": "jsonl-files", "with": {"paths": [f"s3://{BUCKET}/raw/*.jsonl"]}}
    spec["stages"] = [
        {"use": "tide:Open", "with": {"log": OPENED}},
        {"use": "tide:Work", "with": {"seconds": 0.5}},
        {"use": "read-jsonl"},
    ]
    spec["sink"] = {"use": "jsonl"}
    write_elsewhere(manifest, f"s3://{BUCKET}/curated", keys, ground.output.claim)
    return manifest


def test_a_head_killed_over_an_object_store(
    ground: Ground, figures: Figures, store: ObjectStore
) -> None:
    story = Story(ground.kube, "corpus")
    story.begin(_render(ground, SECRET))
    story.wait_for_finished(EARLY)
    story.kill_head(1)
    assert story.wait_for_end()["status"] == "True", story.describe()
    rows = [
        json.loads(line)["id"]
        for name, content in store.list_objects(BUCKET, "curated").items()
        if name.endswith(".jsonl")  # skip the folder's owner files
        for line in content.splitlines()
    ]
    assert sorted(rows) == list(range(COUNT))
    resumption = ground.look_back(story)
    assert len(resumption.finished) >= EARLY
    assert not resumption.finished & resumption.second
    figures.note("the head pod is killed, s3:// in and out", story, resumption)


@pytest.mark.extended
@pytest.mark.usefixtures("store")
def test_wrong_keys_of_an_object_store_are_reported(ground: Ground) -> None:
    wrong = {**KEYS, "AWS_SECRET_ACCESS_KEY": "another"}
    ground.kube.apply(render_secret("wrong-keys", wrong))
    manifest = _render(ground, "wrong-keys")
    manifest["spec"]["retry"]["maxRetries"] = 0
    story = Story(ground.kube, "corpus")
    story.begin(manifest)
    assert story.wait_for_end()["status"] == "False", story.describe()
    description = ground.kube.call("describe", "curationattempts", "corpus-1")
    assert f"s3://{BUCKET}/curated: can't be read (" in description
    assert "signature" in description
