"""The video example on a cluster with an object store; its head is killed during the run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from proving_ground.cluster.kube import Json
from proving_ground.ground import Ground
from proving_ground.object_store import SECRET, ObjectStore
from proving_ground.pipelines import OPENED, write_elsewhere
from proving_ground.results.figures import Figures
from proving_ground.story import Story

EXAMPLES = Path(__file__).parents[3] / "pipelines" / "examples"
BUCKET, EARLY = "films", 2


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Generate the example's videos, and return their folder."""
    folder = tmp_path_factory.mktemp("videos")
    command = [sys.executable, str(EXAMPLES / "make_videos.py"), str(folder)]
    subprocess.run(command, check=True)
    return folder


@pytest.fixture
def store(object_store: ObjectStore, videos: Path) -> ObjectStore:
    """Provide an object store with the videos."""
    for path in sorted(videos.iterdir()):
        object_store.put(BUCKET, f"raw/{path.name}", path.read_bytes())
    return object_store


def _render(ground: Ground) -> Json:
    manifest = ground.render("films")
    spec, example = manifest["spec"], yaml.safe_load((EXAMPLES / "video.yaml").read_text())["spec"]
    spec["source"] = {"use": "files", "with": {"paths": [f"s3://{BUCKET}/raw/*"]}}
    slowly = [
        {"use": "tide:Open", "with": {"log": OPENED}},
        {"use": "tide:Work", "with": {"seconds": 4}},
    ]
    spec["stages"], spec["sink"] = [*slowly, *example["stages"]], example["sink"]
    write_elsewhere(manifest, f"s3://{BUCKET}/clips", SECRET, ground.output.claim)
    return manifest


def _read_clips(folder: Path) -> dict[str, str]:
    """Return the digests of clips by name. Names do not depend on the videos' location."""
    clips = {}
    for path in folder.rglob("*.parquet"):
        for row in pq.read_table(path, columns=["clip", "sha256"]).to_pylist():
            clips[row["clip"].rpartition("/")[2]] = row["sha256"]
    return clips


def _run_here(videos: Path, folder: Path) -> dict[str, str]:
    manifest = yaml.safe_load((EXAMPLES / "video.yaml").read_text())
    manifest["spec"]["source"]["with"]["paths"] = [f"{videos}/*"]
    (folder / "video.yaml").write_text(yaml.safe_dump(manifest))
    command = [sys.executable, "-m", "strandline", "run", str(folder / "video.yaml")]
    command += ["--engine", "inline", "--volume", str(folder / "volume")]
    subprocess.run(command, check=True)
    return _read_clips(folder / "volume/default/video/output")


@pytest.mark.extended
def test_clips_of_a_cluster_are_those_of_a_laptop(
    ground: Ground, figures: Figures, store: ObjectStore, videos: Path, tmp_path: Path
) -> None:
    story = Story(ground.kube, "films")
    story.begin(_render(ground))
    story.wait_for_finished(EARLY)
    story.kill_head(1)
    assert story.wait_for_end()["status"] == "True", story.describe()
    clips = _run_here(videos, tmp_path)
    assert len(clips) > EARLY
    assert clips == _read_clips(store.folder / BUCKET / "clips")
    resumption = ground.look_back(story)
    assert len(resumption.finished) >= EARLY
    assert not resumption.finished & resumption.second
    figures.note("the head pod is killed, videos, s3:// in and out", story, resumption)
