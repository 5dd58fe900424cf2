"""Pipelines of one command share a driver and its Ray. A kill of either loses nothing.

The first tier uses the engine `processes`; test_kills.py kills the processes of a Ray.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from jobs import PATIENCE, end_strays
from strandline.ledger.checks.verification import verify
from strandline.ledger.store.store import Store
from strandline.run.insight.records import AttemptRecord, read_chain
from strandline.run.supervise.variables import ALL
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.disk.local_outputs import LocalOutputs
from strandline_api.outcome.causes import Cause

NAMES = ("notes", "copies", "last")
SOURCES = 12
# Uses one local Ray for several runs, and prints which Ray each run had.
KEEPING = """
import time
from strandline.engine.ray.connection import connected, sharing_local
from strandline.engine.ray.local.start import is_running

with sharing_local():
    seen = []
    for cpus in (1, 1, 2, 2):
        with connected(None, cpus, ["colorsys"]) as connection:
            connection.check_alive()
            assert connection.capacity["CPU"] == cpus
            seen.append(connection.raylet.pid)
    connection.raylet.kill()
    while is_running(connection.raylet):
        time.sleep(0.02)
    with connected(None, 2) as connection:
        connection.check_alive()
        seen.append(connection.raylet.pid)
        raylet = connection.raylet
assert not is_running(raylet)
print(*(seen.index(pid) for pid in seen))
"""
# Starts Ray before the run that needs it, while a module fails to load in the background.
AHEAD = """
import threading
from strandline.engine.ray.connection import connected, find_capacity, sharing_local, start_ahead
from strandline.engine.ray.local.start import find_child, is_running

def load():
    assert threading.current_thread() is not threading.main_thread()
    print("beside")
    raise ValueError

start_ahead(1, load)
raylet = find_child("raylet")
print(find_capacity(1, is_whole=False))
with sharing_local(), connected(None, 1) as connection:
    print(is_running(raylet), connection.raylet == raylet)
print(is_running(raylet))
"""
# Prints the modules that register fork hooks while Ray starts.
LOADED_BESIDE = """
import os, sys

known, register = [], os.register_at_fork

def note(**hooks):
    if {"before", "after_in_parent"} & hooks.keys():
        known.append(sys._getframe(1).f_globals["__name__"])
    register(**hooks)

os.register_at_fork = note
from strandline import __main__
from strandline.engine.ray import connection
before = known[:]
__main__._load_driver()
print(before[0], known[len(before):])
"""


def spell(name: str, source: dict[str, Any], *readers: str) -> dict[str, Any]:
    return {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": name},
        "spec": {
            "source": source,
            "stages": [{"use": name} for name in readers],
            "sink": {"use": "jsonl"},
            "retry": {"backoff": "fixed", "delay": "1s"},
        },
    }


class Passes:
    """Three pipelines that read the outputs of their predecessors."""

    def __init__(self, folder: Path, engine: str) -> None:
        self.folder, self._engine = folder, engine
        texts = folder / "in"
        texts.mkdir()
        for at in range(SOURCES):
            (texts / f"{at:02}.txt").write_text(f"note {at}\n")
        first = {"use": "files", "with": {"paths": ["in/*.txt"]}}
        documents = [spell("notes", first, "read-files", "parse-documents")]
        for before, name in pairwise(NAMES):
            read = {"paths": [{"pipeline": before, "files": "**/*.jsonl"}]}
            documents.append(spell(name, {"use": "jsonl-files", "with": read}, "read-jsonl"))
        (folder / "all.yaml").write_text(yaml.safe_dump_all(documents))

    @contextmanager
    def started(self) -> Iterator[subprocess.Popen[bytes]]:
        command = [sys.executable, "-m", "strandline", "run", "all.yaml"]
        command += ["--engine", self._engine, "--workers", "2"]
        with (self.folder / "run.log").open("ab") as log:
            process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            end_strays(self.folder)

    def find(self, name: str) -> PipelineFolder:
        return PipelineFolder.on_volume(self.folder / "strandline-data", "default", name)

    def list_attempts(self, name: str) -> list[AttemptRecord]:
        return list(read_chain(self.find(name)))

    def await_begin(self, name: str) -> AttemptRecord:
        end = time.monotonic() + PATIENCE
        while not (found := self.list_attempts(name)):
            assert time.monotonic() < end, self.read_log()
            time.sleep(0.005)
        return found[0]

    def read_log(self) -> str:
        return (self.folder / "run.log").read_text(errors="replace")[-4000:]

    def check_complete(self) -> None:
        for name in NAMES:
            folder = self.find(name)
            assert sum(1 for _ in folder.output.rglob("*.jsonl")) == SOURCES, name
            store = Store(folder.ledger, readonly=True)
            try:
                assert verify(store, LocalOutputs(folder.output)).problems == []
            finally:
                store.close()


@pytest.fixture(params=[pytest.param("ray", marks=pytest.mark.full), "processes"])
def passes(request: pytest.FixtureRequest, tmp_path: Path) -> Passes:
    return Passes(tmp_path, request.param)


on_ray = pytest.mark.parametrize(
    "passes", [pytest.param("ray", marks=pytest.mark.full)], indirect=True
)


def list_below(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def await_ends(processes: list[psutil.Process]) -> None:
    _, left = psutil.wait_procs(processes, timeout=PATIENCE)
    assert left == []


@on_ray
def test_rays_processes_do_not_inherit_the_drivers_private_variables(
    passes: Passes,
) -> None:
    """Otherwise the processes of a stage would use the numbers of the driver's pipes."""
    with passes.started():
        driver = passes.await_begin("notes").pid
        told = [
            each.environ().keys() & {*ALL}
            for each in list_below(driver)
            if each.name() in {"raylet", "gcs_server"}
        ]
    assert told == [set(), set()]


def test_one_driver_makes_the_attempts_of_all(passes: Passes) -> None:
    with passes.started() as process:
        first = passes.await_begin("notes")
        last = passes.await_begin("last")
        below = list_below(process.pid)
        assert process.wait(PATIENCE) == 0, passes.read_log()
        await_ends(below)
    assert first.pid == last.pid != process.pid
    assert [len(passes.list_attempts(name)) for name in NAMES] == [1, 1, 1]
    # A log begins with the name of its pipeline and has no lines of other pipelines.
    for name in NAMES:
        (log,) = passes.find(name).logs.glob("*.log")
        told = log.read_text()
        assert f"default/{name}/output" in told
        assert not any(f"default/{other}/output" in told for other in NAMES if other != name)
    passes.check_complete()


@pytest.mark.more
def test_a_driver_killed_in_the_second_pass_is_replaced(passes: Passes) -> None:
    with passes.started() as process:
        driver = passes.await_begin("copies").pid
        os.kill(driver, signal.SIGKILL)
        assert process.wait(PATIENCE) == 0, passes.read_log()
    first, second = passes.list_attempts("copies")
    assert first.pid == driver == passes.list_attempts("notes")[0].pid
    assert second.pid == passes.list_attempts("last")[0].pid != driver
    assert first.cause is Cause.KILLED
    passes.check_complete()


@on_ray
def test_a_ray_killed_in_the_second_pass_is_replaced(passes: Passes) -> None:
    """Ray is replaced in the same attempt if it was not yet in use, and otherwise in the next."""
    with passes.started() as process:
        driver = passes.await_begin("copies").pid
        raylets = [each for each in psutil.Process(driver).children() if each.name() == "raylet"]
        for raylet in raylets:
            raylet.kill()
        assert process.wait(PATIENCE) == 0, passes.read_log()
    assert len(raylets) == 1
    passes.check_complete()


@pytest.mark.more
def test_a_killed_parent_ends_all_processes(passes: Passes) -> None:
    with passes.started() as process:
        passes.await_begin("copies")
        below = list_below(process.pid)
        process.kill()
        await_ends(below)
    with passes.started() as process:
        assert process.wait(PATIENCE) == 0, passes.read_log()
    passes.check_complete()


@pytest.mark.more
def test_a_request_to_stop_in_the_second_pass_ends_all_passes(passes: Passes) -> None:
    with passes.started() as process:
        passes.await_begin("copies")
        below = list_below(process.pid)
        process.send_signal(signal.SIGINT)
        code = process.wait(PATIENCE)
        await_ends(below)
    # Exit code 0 means that the request came after the end of all work.
    assert code in {0, 75}, passes.read_log()
    with passes.started() as process:
        assert process.wait(PATIENCE) == 0, passes.read_log()
    passes.check_complete()


@pytest.mark.full
def test_a_kept_ray_serves_runs_of_its_size_and_is_replaced_after_its_death() -> None:
    command = [sys.executable, "-c", KEEPING]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["0", "0", "2", "2", "4"]


@pytest.mark.more
def test_the_first_run_uses_the_ray_that_was_started_early() -> None:
    command = [sys.executable, "-c", AHEAD]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["beside", "{'CPU': 1.0}", "True True", "False"]


def test_modules_loaded_in_the_background_add_no_fork_hooks() -> None:
    """A hook that is registered during a fork would release a lock that it has not acquired."""
    command = [sys.executable, "-c", LOADED_BESIDE]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stdout == "logging []\n"
