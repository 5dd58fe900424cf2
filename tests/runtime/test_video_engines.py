"""Videos give the same bytes with both engines, even if a worker dies during a shard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from make_videos import write_all

from jobs import Job
from killing import Kill, kill_and_finish
from strandline.ledger.store.store import Store
from strandline_api.outcome.exit_codes import ExitCode

EXAMPLE = Path(__file__).parents[2] / "pipelines" / "examples" / "video.yaml"


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the example over test videos, with stages small enough for any machine."""
    folder = tmp_path_factory.mktemp("video")
    write_all(folder / "videos")
    document: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    spec = document["spec"]
    spec["source"]["with"]["paths"] = [f"{folder}/videos/*"]
    spec["stages"][0]["with"]["clipsPerTask"] = 1
    spec["stages"].insert(0, {"use": "kill_stages:LogOpened"})
    manifest = folder / "video.yaml"
    manifest.write_text(yaml.safe_dump(document))
    return manifest


@pytest.fixture(scope="module")
def whole(manifest: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the outputs of an undisturbed run in one process."""
    return Job(manifest, "inline").run_whole(tmp_path_factory.mktemp("whole"))


# Starts a Ray. In the first tier, test_forked_workers.py tests the message about the signal.
@pytest.mark.more
def test_a_decoder_that_crashes_its_process_fails_only_its_source(
    manifest: Path, whole: dict[str, str], tmp_path: Path
) -> None:
    document = yaml.safe_load(manifest.read_text())
    document["spec"]["stages"].insert(
        2, {"use": "kill_stages:CrashAt", "with": {"name": "again.mkv"}}
    )
    crashing = tmp_path / "video.yaml"
    crashing.write_text(yaml.safe_dump(document))
    job, volume = Job(crashing), tmp_path / "volume"
    assert ExitCode.SOURCES_FAILED == job.run(volume), job.read_log(volume)
    store = Store(job.find_folder(volume).ledger, readonly=True)
    try:
        ((_, failure),) = store.list_failures()
    finally:
        store.close()
    assert ("again.mkv", "crash-at") == (Path(failure.key).name, failure.stage)
    assert "lost 3 workers; the last: its process died of SIGSEGV in " in failure.message
    assert "(runtime/kill_stages.py:" in failure.message
    assert not job.find_problems(volume, unfinished=1)
    found = sorted(job.digest_outputs(volume).values())
    assert set(found) < set(whole.values())
    assert len(whole) - 4 == len(found)  # two files for each clip's shard are missing


# Starts a Ray. In the first tier, tests/engines compares the engines, and tests/docs runs the
# example.
@pytest.mark.more
def test_both_engines_write_the_same_bytes(
    manifest: Path, whole: dict[str, str], tmp_path: Path
) -> None:
    assert {".tar", ".parquet"} == {Path(name).suffix for name in whole}
    assert 16 == len(whole)
    assert whole == Job(manifest).run_whole(tmp_path)


# Kills processes of its own Rays. In the first tier, test_kills.py does so with text.
@pytest.mark.full
@pytest.mark.parametrize(
    ("target", "step", "nth"),
    [("worker", "output.renamed", 3), ("driver", None, 0)],
)
def test_a_kill_leaves_the_same_clips(
    manifest: Path, whole: dict[str, str], tmp_path: Path, target: str, step: str | None, nth: int
) -> None:
    kill = Kill(target, step, nth, written=5, delay=0.0)
    result = kill_and_finish(Job(manifest), tmp_path, kill, whole)
    assert result.is_good, (kill, result)
