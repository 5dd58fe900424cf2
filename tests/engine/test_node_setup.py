"""One worker sets a node up while others wait. If it dies, another worker repeats the setup."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from strandline.engine.call import setup as node_setup
from strandline.engine.call.setup import (
    StageSetupError,
    find_folder,
    has_node_setup,
    remove,
    set_up_node,
    set_up_once,
    sweep,
)
from strandline.plan.pipeline import StagePlan
from strandline.plan.stages.stage import Stage

PROGRAM = """
import os, sys, pathlib
from strandline.engine.call.setup import set_up_once

def set_up():
    with open(sys.argv[2], "a") as log:
        log.write(f"{os.getpid()}\\n")
    if sys.argv[3] == "die":
        os._exit(9)

set_up_once(pathlib.Path(sys.argv[1]), "decode", set_up)
"""


class Fetching(Stage):
    """Needs a setup on each node."""

    def setup_on_node(self) -> None:
        raise OSError(28, "No space left on device")


def run(folder: Path, log: Path, what: str = "live") -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder), str(log), what])


@pytest.mark.slow
def test_law_one_of_many_workers_sets_the_node_up(tmp_path: Path) -> None:
    folder, log = tmp_path / "node", tmp_path / "log"
    workers = [run(folder, log) for _ in range(4)]
    assert [worker.wait(120) for worker in workers] == [0] * 4
    assert len(log.read_text().split()) == 1


def test_the_other_workers_wait_for_the_setup(tmp_path: Path) -> None:
    is_begun, may_end = threading.Event(), threading.Event()
    done: list[str] = []

    def set_up() -> None:
        is_begun.set()
        assert may_end.wait(120)
        done.append("once")

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(set_up_once, tmp_path, "decode", set_up)
        assert is_begun.wait(120)
        second = pool.submit(set_up_once, tmp_path, "decode", lambda: done.append("twice"))
        assert not second.done()
        may_end.set()
        first.result(20)
        second.result(20)

    assert done == ["once"]


@pytest.mark.slow
def test_after_a_death_the_next_worker_sets_the_node_up(tmp_path: Path) -> None:
    folder, log = tmp_path / "node", tmp_path / "log"
    assert run(folder, log, "die").wait(120) == 9
    assert run(folder, log).wait(120) == 0
    assert run(folder, log).wait(120) == 0
    assert len(log.read_text().split()) == 2


def test_a_failed_setup_does_not_count_as_done(tmp_path: Path) -> None:
    calls: list[int] = []

    def fail() -> None:
        calls.append(1)
        raise StageSetupError("no")

    for _ in range(2):
        with pytest.raises(StageSetupError):
            set_up_once(tmp_path, "decode", fail)
    assert len(calls) == 2


def test_each_stage_has_its_own_setup(tmp_path: Path) -> None:
    calls: list[str] = []
    for name in ("a", "b", "a"):
        set_up_once(tmp_path, name, partial(calls.append, name))
    assert calls == ["a", "b"]


def test_an_unusable_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StageSetupError, match=r"'decode' can't be set up on a node, .* Not a dir"):
        set_up_once(tmp_path / "file" / "node", "decode", lambda: None)


def test_a_failure_names_stage_and_node() -> None:
    plan = StagePlan("decode", "decode", Fetching())
    with pytest.raises(StageSetupError, match="stage 'decode' can't set up node 'n7': OSError"):
        set_up_node(plan, "n7")


def test_a_stage_without_the_hook_is_recognized() -> None:
    assert has_node_setup(StagePlan("decode", "decode", Fetching()))
    assert not has_node_setup(StagePlan("other", "other", Stage()))


def test_a_new_attempt_removes_folders_of_earlier_attempts(tmp_path: Path) -> None:
    old, new, far, other = (
        find_folder(pipeline, attempt, node, tmp_path)
        for pipeline, attempt, node in (
            ("default.videos", "0001-ab", "a1"),
            ("default.videos", "0002-cd", "a1"),
            ("default.videos", "0001-ab", "b2"),
            ("default.texts", "0001-ab", "a1"),
        )
    )
    for folder in (old, new, far, other):
        set_up_once(folder, "decode", lambda: None)
    sweep(new)
    assert all(folder.exists() for folder in (old, new, far, other))  # their workers are alive

    for folder in (old, new, far, other):
        os.close(node_setup._HELD.pop(folder) or 0)  # as if its process had ended

    sweep(new)

    assert [folder.exists() for folder in (old, new, far, other)] == [False, True, True, True]
    remove(far)
    remove(new)
    assert sorted(os.listdir(tmp_path)) == [other.parent.name]
