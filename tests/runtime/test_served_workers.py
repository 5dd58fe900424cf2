"""Workers with their own servers end only when all requests to the servers are answered."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import ray
import yaml

from jobs import Job
from strandline.engine.call.slots import Slot
from strandline.engine.call.wire import pack_tasks
from strandline.plan.pipeline import StagePlan
from strandline.plan.task import Lineage, Task
from strandline.stages import AskModel
from strandline_api.outcome.exit_codes import ExitCode
from strandline_packs.models.asking.log.request_log import FileLog
from test_own_servers import is_alive, list_started, serve, wait_until_gone
from test_scaler import TIMEOUT, standing
from waiting import wait_until

NAME, ROWS = "served", 3


def read_prompts(folder: Path, what: str) -> Counter[str]:
    """Return the prompts that servers have received ("asked") or answered."""
    path = folder / what
    return Counter(path.read_text().splitlines()) if path.exists() else Counter()


def make_slot(number: int, prompts: Sequence[str]) -> Slot:
    token = bytes([number]) * 16
    task = Task(pa.table({"text": list(prompts)}), {}, Lineage(token, token, str(number)))
    return Slot(token, str(number), token, None, ray.put(pack_tasks([task])), 0)


@pytest.mark.usefixtures("local_ray")
def test_a_worker_that_must_make_room_answers_before_it_ends(tmp_path: Path) -> None:
    values = {"model": "small", "prompt": "{{ text }}", "serve": serve(tmp_path)}
    stage = AskModel(AskModel.Params.model_validate(values))
    prompts = [[f"late {worker} {row}" for row in range(ROWS)] for worker in range(2)]
    with standing(StagePlan(NAME, NAME, stage), cpu=1.0) as bench:
        for _ in range(2):
            bench.pools.start_worker(1, 1.0)
        bench.take_ready()
        for number in range(2):
            bench.pools.submit(1, [make_slot(number, prompts[number])], 1)
        wait_until(lambda: read_prompts(tmp_path, "asked").total() == 2 * ROWS, TIMEOUT)
        bench.look()  # a drain makes space for the other pool's minimum
        workers = bench.pools[1].workers
        assert [worker.is_draining for worker in workers].count(True) == 1, workers
        (staying,) = (worker for worker in workers if not worker.is_draining)
        bench.look()
        assert bench.pools.look()[0].workers == 0
        assert all(is_alive(pid) for pid in list_started(tmp_path))
        (tmp_path / "go").touch()
        take_answers(bench.pools)
        assert [staying] == bench.pools[1].workers
        wait_until(lambda: sum(map(is_alive, list_started(tmp_path))) == 1, TIMEOUT)
        asked = Counter(prompt for each in prompts for prompt in each)
        assert read_prompts(tmp_path, "asked") == read_prompts(tmp_path, "answered") == asked
        bench.look()
        assert bench.pools.look()[0].workers == 1


def take_answers(pools: Any) -> None:
    """Wait for all calls, and check that all rows have answers."""
    while pools.calls:
        (reference,), _ = ray.wait(list(pools.calls), timeout=TIMEOUT)
        _, receipt = pools.take_answer(reference, ray.get(reference))
        assert receipt.counts.counters["answers"] == ROWS


def make_manifest(folder: Path, files: int) -> Path:
    """Write a pipeline whose servers answer only when the test permits."""
    for file in range(files):
        rows = [{"text": f"late {file} {row}"} for row in range(ROWS)]
        (folder / f"{file}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ask = {"model": "small", "prompt": "{{ text }}", "serve": serve(folder)}
    small = {"resources": {"cpu": 0.1}}
    workers = {"min": files, "max": files}
    document = {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": NAME},
        "spec": {
            "source": {"use": "files", "with": {"paths": [f"{folder}/*.jsonl"]}},
            "stages": [
                {"use": "read-jsonl", **small},
                {"use": "ask-model", "with": ask, "workers": workers, **small},
            ],
            "sink": {"use": "parquet", **small},
        },
    }
    manifest = folder / f"{NAME}.yaml"
    manifest.write_text(yaml.safe_dump(document))
    return manifest


def stop_once_asked(process: subprocess.Popen[bytes], folder: Path, requests: int) -> int:
    """Request a stop while all requests are in flight, and return the exit code."""
    wait_until(lambda: read_prompts(folder, "asked").total() == requests, TIMEOUT)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.5)  # time in which the run could end wrongly
    (folder / "go").touch()
    return process.wait(TIMEOUT)


# Both engines start drivers. In the first tier, the previous test drains a worker on Ray.
@pytest.mark.more
@pytest.mark.parametrize(
    ("engine", "files"),
    [
        pytest.param("inline", 1, marks=pytest.mark.more),
        ("processes", 2),
        pytest.param("ray", 2, marks=pytest.mark.more),
    ],
)
def test_a_stopped_run_keeps_the_answers_in_flight(engine: str, files: int, tmp_path: Path) -> None:
    job, volume = Job(make_manifest(tmp_path, files), engine), tmp_path / "volume"
    options = [] if engine == "inline" else ["--workers", "2"]
    with job.started(volume, options=options) as process:
        code = stop_once_asked(process, tmp_path, files * ROWS)
    assert code in {ExitCode.INTERRUPTED, ExitCode.COMPLETE}, job.read_log(volume)
    for pid in list_started(tmp_path):
        wait_until_gone(pid)
    asked = read_prompts(tmp_path, "asked")
    assert read_prompts(tmp_path, "answered") == asked
    logs = volume.rglob("requests/ask-model/*/*.requests")
    answers = Counter(entry.answer.text for path in logs for entry in FileLog(path).read())
    assert answers == Counter(f"small: {prompt}" for prompt in asked)
    assert job.run(volume) == ExitCode.COMPLETE, job.read_log(volume)
    assert read_prompts(tmp_path, "asked") == asked, "what was answered was asked for again"
