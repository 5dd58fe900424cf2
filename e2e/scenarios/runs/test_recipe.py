"""FineWeb's recipe on a cluster: five pipelines in one file, with all data in an object store."""

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
BUCKET, PAGES, RANGE_BYTES, EARLY = "web", "68", 6000, 2
MEMORY = "1536Mi"  # per worker, for a language model and trafilatura


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a small version of the example's crawl, and return its folder."""
    folder = tmp_path_factory.mktemp("recipe") / "crawl"
    command = [sys.executable, str(EXAMPLES / "make_crawl.py"), str(folder), "--pages", PAGES]
    subprocess.run(command, check=True)
    return folder


@pytest.fixture
def store(object_store: ObjectStore, crawl: Path) -> ObjectStore:
    """Provide an object store with the crawl."""
    for path in sorted(crawl.iterdir()):
        object_store.put(BUCKET, f"crawl/{path.name}", path.read_bytes())
    return object_store


def _read_example(crawl: str) -> list[Json]:
    documents = list(yaml.safe_load_all((EXAMPLES / "fineweb.yaml").read_text()))
    listing = {"paths": [f"{crawl}/*.warc.gz"], "rangeBytes": RANGE_BYTES}
    documents[0]["spec"]["source"]["with"] = listing
    return documents


def _render(ground: Ground, example: Json) -> Json:
    name = example["metadata"]["name"]
    manifest = ground.render(name)
    spec = manifest["spec"] = manifest["spec"] | example["spec"]
    spec["ray"]["workerGroups"][0]["resources"]["memory"] = MEMORY
    write_elsewhere(manifest, f"s3://{BUCKET}/{name}", SECRET, ground.output.claim)
    return manifest


def _render_all(ground: Ground) -> list[Json]:
    manifests = [_render(ground, example) for example in _read_example(f"s3://{BUCKET}/crawl")]
    slowly = [
        {"use": "tide:Open", "with": {"log": OPENED}},
        {"use": "tide:Work", "with": {"seconds": 4}},
    ]
    manifests[0]["spec"]["stages"] = [*slowly, *manifests[0]["spec"]["stages"]]
    return manifests


def _read_kept(folder: Path) -> list[tuple[str, str]]:
    """Return each row's URL and text. Row keys are left out: they depend on the location."""
    return sorted(
        (row["url"], row["text"])
        for path in folder.rglob("*.parquet")
        for row in pq.read_table(path, columns=["url", "text"]).to_pylist()
    )


def _run_here(crawl: Path, folder: Path) -> list[tuple[str, str]]:
    path = folder / "fineweb.yaml"
    path.write_text(yaml.safe_dump_all(_read_example(str(crawl))))
    command = [sys.executable, "-m", "strandline", "run", str(path)]
    command += ["--engine", "inline", "--volume", str(folder / "volume")]
    subprocess.run(command, check=True)
    return _read_kept(folder / "volume/default/fineweb/output")


@pytest.mark.extended
@pytest.mark.timeout(2400)  # six Ray clusters in sequence
def test_pages_that_a_cluster_keeps_are_those_of_a_laptop(
    ground: Ground, figures: Figures, store: ObjectStore, crawl: Path, tmp_path: Path
) -> None:
    manifests = _render_all(ground)
    ground.kube.apply(*manifests)
    stories = [Story(ground.kube, manifest["metadata"]["name"]) for manifest in manifests]
    stories[0].wait_for_finished(EARLY)
    stories[0].kill_head(1)
    for story in stories:
        assert story.wait_for_end()["status"] == "True", story.describe()
    kept = _run_here(crawl, tmp_path)
    pages = _read_kept(tmp_path / "volume/default/fineweb-pages/output")
    assert 0 < len(kept) < len(pages)  # some near-duplicates were dropped
    assert kept == _read_kept(store.folder / BUCKET / "fineweb")
    resumption = ground.look_back(stories[0])
    assert len(resumption.finished) >= EARLY
    assert not resumption.finished & resumption.second
    figures.note("the head pod is killed, FineWeb's recipe on s3://", stories[0], resumption)
