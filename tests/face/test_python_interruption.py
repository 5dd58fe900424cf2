"""An interrupt of a run in the caller's process leaves a state that the next call can use."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strandline import ExitCode, Pipeline, SinkStage, Source, SourceStage, Stage, Task
from strandline.python.interruption import MESSAGE, SENTENCE, interruptible


class Numbers(SourceStage):
    """Lists numbers slowly, so that a run can be stopped in between."""

    def list_sources(self) -> Any:
        for number in range(8):
            yield Source(f"number {number}", "1", number)


class Interrupt(Stage):
    """Interrupts this process a given number of times at its third task, as Ctrl-C does."""

    class Params(Stage.Params):
        """Number of interrupts."""

        times: int

    params: Params
    not_fingerprinted = frozenset({"times"})

    def process(self, task: Task) -> Task:
        if task.data == 2:
            for _ in range(self.params.times):
                os.kill(os.getpid(), signal.SIGINT)
        return task


class Text(SinkStage):
    """Writes numbers as text."""

    def write(self, task: Task, file: Any) -> None:
        file.write(str(task.data).encode())


@pytest.fixture(autouse=True)
def _keyboard() -> Iterator[None]:
    """Restore the default handling of Ctrl-C, which a worker of pytest ignores."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def build(times: int) -> Pipeline:
    return Pipeline("keys", source=Numbers(), stages=[Interrupt(times=times)], sink=Text())


@pytest.mark.parametrize("times", [1, 2])
def test_after_an_interrupt_the_next_call_resumes(tmp_path: Path, times: int) -> None:
    with pytest.raises(KeyboardInterrupt) as caught:
        build(times).run(tmp_path, engine="inline")
    # The first interrupt waits for the work to end; the second does not.
    assert str(caught.value) == (MESSAGE if times == 1 else "")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    outcome = build(0).run(tmp_path, engine="inline")

    assert outcome.code is ExitCode.COMPLETE
    assert outcome.standing.finished + outcome.standing.skipped == 8
    assert outcome.attempt == 2
    assert sorted(Path(path).read_text() for path in outcome.outputs) == list("01234567")


def test_a_run_without_a_ledger_is_stopped_too(tmp_path: Path) -> None:
    class Placed(Text):
        class Params(Text.Params):
            path: str

    pipeline = Pipeline(
        "keys", source=Numbers(), stages=[Interrupt(times=1)], sink=Placed(path=str(tmp_path / "o"))
    )
    with pytest.raises(KeyboardInterrupt, match="`run` keeps finished sources"):
        pipeline.run(engine="inline")


def test_an_interrupt_is_announced_once() -> None:
    heard: list[str] = []
    answers: list[bool] = []

    def work() -> None:
        with interruptible(heard.append) as is_asked:
            answers.append(is_asked())
            os.kill(os.getpid(), signal.SIGINT)
            answers.append(is_asked())

    with pytest.raises(KeyboardInterrupt, match=MESSAGE):
        work()
    assert answers == [False, True]
    assert heard == [SENTENCE]


def test_an_error_of_the_run_is_not_hidden_by_an_interrupt() -> None:
    def fail() -> None:
        with interruptible(lambda _: None):
            os.kill(os.getpid(), signal.SIGINT)
            msg = "the disk is full"
            raise OSError(msg)

    with pytest.raises(OSError, match="the disk is full"):
        fail()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_existing_signal_handler_stays_installed() -> None:
    heard: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    with interruptible(lambda _: None) as is_asked:
        os.kill(os.getpid(), signal.SIGINT)
        assert not is_asked()
    assert heard == [signal.SIGINT]


def test_no_signal_handler_is_installed_in_a_thread() -> None:
    answers: list[bool] = []

    def work() -> None:
        with interruptible(lambda _: None) as is_asked:
            answers.append(is_asked())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert answers == [False]
