"""A source that exhausts memory is found and quarantined, but not other sources in flight."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from memory_group import enter, made_group
from strandline.ledger.store.store import Store
from strandline.storage.layout import PipelineFolder

pytestmark = pytest.mark.first(reason="a source kills its driver three times")

DRIVER_NODE = Path(__file__).parent
HEALTHY = 12


def write_job(folder: Path, *, healthy: int, after: int, batch_size: int) -> Path:
    texts = folder / "texts"
    texts.mkdir()
    for number in range(healthy):
        (texts / f"{number:02d}.txt").write_text(f"note {number}")
    for name in ("large", "poison"):
        (texts / f"{name}.txt").write_text(name)
    document = {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": "poison"},
        "spec": {
            "source": {"use": "files", "with": {"paths": [f"{texts}/*.txt"]}},
            "stages": [
                {"use": "read-files"},
                {
                    "use": "poison_stages:Grow",
                    "batchSize": batch_size,
                    "workers": {"min": 2, "max": 2},
                },
            ],
            "sink": {"use": "jsonl"},
            "retry": {"delay": "0s"},
            "quarantine": {"after": after},
        },
    }
    manifest = folder / "poison.yaml"
    manifest.write_text(yaml.safe_dump(document))
    return manifest


def run_under(limit: int, manifest: Path, *arguments: str, **extra: str) -> tuple[int, str]:
    """Run under a memory limit. Return the exit code and the complete output."""
    command = [sys.executable, "-m", "strandline", "run", str(manifest)]
    command += ["--volume", str(manifest.parent), *arguments]
    environment = {
        **os.environ,
        "MARKERS": str(manifest.parent),
        "PYTHONPATH": os.pathsep.join([str(DRIVER_NODE), os.environ.get("PYTHONPATH", "")]),
        # Disable Ray's memory monitor, which may kill before the kernel does.
        "RAY_memory_monitor_refresh_ms": "0",
        **extra,
    }
    with made_group(limit) as group:
        if group is None:
            pytest.skip("no memory cgroup can be made here")
        (manifest.parent / "group").symlink_to(group)
        done = subprocess.run(
            enter(group, command),
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
    return done.returncode, done.stdout + done.stderr


def read_end(manifest: Path) -> tuple[set[str], dict[str, str], dict[str, int]]:
    """Return the finished sources, the causes of quarantined sources, and the ledger's counts."""
    store = Store(
        PipelineFolder.on_volume(manifest.parent, "default", "poison").ledger, readonly=True
    )
    try:
        finished = {Path(record.key).stem for _, _, record in store.list_records()}
        parked = {
            Path(quarantined.key).stem: quarantined.cause
            for _, quarantined in store.list_quarantined()
        }
        return finished, parked, store.count()
    finally:
        store.close()


@pytest.mark.more
def test_a_poison_source_that_kills_the_driver_is_parked(tmp_path: Path) -> None:
    manifest = write_job(tmp_path, healthy=HEALTHY, after=3, batch_size=2)
    (tmp_path / "large").touch()

    code, printed = run_under(600_000_000, manifest, "--engine", "inline")

    assert 4 == code, printed
    finished, parked, counts = read_end(manifest)
    assert {"poison": "OOMKilled"} == parked
    assert HEALTHY + 1 == len(finished) == counts["finished"]
    assert 0 == counts["failed"] == counts["inflight"]
    records = [
        json.loads(path.read_text())
        for path in sorted((tmp_path / "default/poison/attempts").glob("*/attempt.json"))
    ]
    # The first kill hits the source together with a neighbor, and the next three hit the source
    # alone.
    causes = [record["cause"] for record in records]
    assert ["OOMKilled"] * 4 + ["QuarantineExceeded"] == causes
    assert {"cgroup"} == {
        one["source"]
        for record in records[:-1]
        for one in record["outcome"]["evidence"]
        if one["cause"] == "OOMKilled" and one["source"] != "kernel log"
    }


# In the first tier, the previous test quarantines a source that exhausts memory, and
# tests/engine/test_held_suspects.py retries suspects alone.
@pytest.mark.more
@pytest.mark.parametrize("engine", ["processes", "ray"])
def test_a_neighbor_that_the_kernel_kills_is_not_blamed(engine: str, tmp_path: Path) -> None:
    """The neighbor needs so much memory that it dies beside the poison source, but not alone."""
    # With two sources and two workers, both sources run together, in any order.
    manifest = write_job(tmp_path, healthy=0, after=1, batch_size=1)

    words = ("--engine", engine, "--workers", "2", "--no-supervise")
    code, printed = run_under(2_000_000_000, manifest, *words, LARGE="yes")

    assert 4 == code, printed
    finished, parked, _ = read_end(manifest)
    assert {"poison": "OOMKilled"} == parked
    assert {"large"} == finished
    opened = (tmp_path / "opened.log").read_text().split()
    assert opened.count("large.txt") >= 2, "the kernel has not taken the neighbour"
