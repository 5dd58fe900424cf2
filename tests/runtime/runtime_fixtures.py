"""Fixtures: a small pipeline with fan-outs, filters, and groups, and a shared local Ray."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
import yaml

from jobs import Job
from killing import SMALL_SOURCES
from strandline.engine.autoscaler.inputs import CPU
from strandline.engine.ray.local.start import start_local, stop_local
from waiting import wait_until

HERE = Path(__file__).parent
# Folders of tests that share the local Ray. The workers of Ray import modules from these folders.
RAY_FOLDERS = (HERE, HERE.parent / "engines")
CPUS = 2


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Stop the shared Ray after the last test of its folders. Other tests must not use it."""
    if nextitem is None or not set(RAY_FOLDERS) & set(nextitem.path.parents):
        stop_local()


@pytest.fixture(scope="session")
def small_manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a manifest over two dozen small files in a separate folder."""
    folder = tmp_path_factory.mktemp("small")
    texts = folder / "texts"
    texts.mkdir()
    for number in range(SMALL_SOURCES):
        lines = [f"line {number}.{line}" * (line + 1) for line in range(number % 7)]
        lines.insert(number % 3, "")  # the first lines are only filtered
        (texts / f"{number:02d}.txt").write_text("\n".join(lines))
    document = {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": "small"},
        "spec": {
            "source": {"use": "files", "with": {"paths": [f"{texts}/*.txt"]}},
            "stages": [
                {"use": "kill_stages:LogOpened"},
                {"use": "read-files"},
                {"use": "kill_stages:SplitLines"},
                {"use": "kill_stages:JoinLengths", "group": 2},
            ],
            "sink": {"use": "jsonl", "batchSize": 2},
        },
    }
    manifest = folder / "small.yaml"
    manifest.write_text(yaml.safe_dump(document))
    return manifest


@pytest.fixture(scope="session")
def small_job(small_manifest: Path) -> Job:
    """The small pipeline as a job to be killed."""
    return Job(small_manifest)


@pytest.fixture(scope="session")
def small_whole(small_job: Job, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the outputs of an undisturbed run of the small pipeline."""
    return small_job.run_whole(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="session")
def ray_folder() -> Iterator[Path]:
    """Yield the folder of the shared Ray, whose sockets need shorter paths than pytest's."""
    folder = tempfile.mkdtemp(prefix="ray-")
    yield Path(folder)
    stop_local()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def local_ray(ray_folder: Path) -> str:
    """Start the shared local Ray or wait until it is idle, and return its address."""
    return enter_local_ray(ray_folder)


def enter_local_ray(ray_folder: Path) -> str:
    """Start the shared local Ray if it is down, wait until it is idle, and return its address."""
    if not ray.is_initialized():
        folders = [*map(str, RAY_FOLDERS), str(HERE.parents[1] / "pipelines/examples")]
        path = os.pathsep.join([*folders, os.environ.get("PYTHONPATH", "")])
        # Set the path in the environment of all tests. With an environment per job, Ray starts
        # processes only on demand, which doubles the cost of each process.
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", path)
            start_local(
                CPUS,
                ray_folder,
                num_gpus=1,  # reserved units without real devices
                resources={"nvdec": 1},
                object_store_memory=200 * 1024 * 1024,
            )
    # Workers of the previous test may still be ending, and a plan depends on the free CPUs.
    wait_until(lambda: ray.available_resources().get(CPU) == CPUS, patience=60)
    return str(ray.get_runtime_context().gcs_address)
