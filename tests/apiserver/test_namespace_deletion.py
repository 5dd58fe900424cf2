"""A namespace is deleted during a run, while the operator is running, killed, or uninstalled."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from api_server import ApiServer
from kill_trials import PATIENCE, PAUSE
from kube_client import KubeClient
from operator_process import QUICK, OperatorProcess, run_operator
from operator_stories import NAME, STORIES, Performance
from overlap_watch import OverlapWatch
from strandline_api.names import FINALIZER

STILL = 3.0  # seconds for which the namespace is watched without an operator


@contextmanager
def open_run(server: ApiServer, folder: Path) -> Iterator[tuple[Performance, OperatorProcess]]:
    """Start a pipeline, and yield it when its first attempt is running."""
    with closing(KubeClient(server.kubeconfig)) as client:
        # The player pauses at the Running phase, because this story has an action there.
        performance = Performance.open(server, client, STORIES["deleted"])
        flags = ("--namespaces", performance.namespace)
        with run_operator(server.kubeconfig, folder, *flags, **QUICK) as operator:
            wait_for(lambda: is_running(performance), performance)
            yield performance, operator


def is_running(performance: Performance) -> bool:
    performance.look()
    return performance.phase == "Running"


def wait_for(is_so: Callable[[], object], performance: Performance) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, performance.pipeline
        asyncio.run(performance.troupe.tick())
        time.sleep(PAUSE)


def is_deleting(performance: Performance) -> bool:
    performance.look()
    pipeline = performance.pipeline
    return pipeline is not None and "deletionTimestamp" in pipeline["metadata"]


def is_gone(performance: Performance) -> bool:
    return performance.client.get("Namespace", performance.namespace) is None


def delete_namespace(performance: Performance) -> None:
    performance.client.delete("Namespace", performance.namespace)


def test_with_an_operator_the_namespace_is_deleted_without_errors(
    api_server: ApiServer, overlap_watch: OverlapWatch, tmp_path: Path
) -> None:
    del overlap_watch  # the fixture watches for overlaps
    with open_run(api_server, tmp_path) as (performance, operator):
        delete_namespace(performance)
        wait_for(lambda: is_gone(performance), performance)
        assert operator.is_alive
        assert operator.faults == []


def test_a_restarted_operator_releases_the_namespace(
    api_server: ApiServer, overlap_watch: OverlapWatch, tmp_path: Path
) -> None:
    del overlap_watch
    with open_run(api_server, tmp_path) as (performance, operator):
        operator.kill()
        delete_namespace(performance)
        hold_still(performance)
        operator.start()
        wait_for(lambda: is_gone(performance), performance)
        assert operator.faults == []


@pytest.mark.parametrize("is_deleted_first", [True, False], ids=["stuck", "ahead"])
def test_without_an_operator_the_uninstall_command_releases_the_namespace(
    api_server: ApiServer, overlap_watch: OverlapWatch, tmp_path: Path, *, is_deleted_first: bool
) -> None:
    del overlap_watch
    with open_run(api_server, tmp_path) as (performance, operator):
        operator.kill()
        if is_deleted_first:
            delete_namespace(performance)
            hold_still(performance)
        printed = release(api_server, performance.namespace)
        if not is_deleted_first:
            delete_namespace(performance)
        wait_for(lambda: is_gone(performance), performance)
    subject = f"released {performance.namespace}/{NAME}"
    ending = ", which was being deleted" if is_deleted_first else f": RayJob {NAME}-1 continues"
    assert printed.startswith(subject + ending)


def hold_still(performance: Performance) -> None:
    """Check that the namespace stays while no operator removes the finalizer."""
    # The namespace controller deletes the pipeline a little later.
    wait_for(lambda: is_deleting(performance), performance)
    end = time.monotonic() + STILL
    while time.monotonic() < end:
        asyncio.run(performance.troupe.tick())
        time.sleep(PAUSE)
    performance.look()
    assert performance.pipeline is not None
    assert FINALIZER in performance.pipeline["metadata"]["finalizers"]
    assert not is_gone(performance)


def release(server: ApiServer, namespace: str) -> str:
    """Run the command of the chart's uninstall hook, and return its output."""
    flags = ["--pipelines=release", f"--namespaces={namespace}"]
    done = subprocess.run(
        [sys.executable, "-m", "strandline_operator", "uninstall", *flags],
        env={**os.environ, "KUBECONFIG": str(server.kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
