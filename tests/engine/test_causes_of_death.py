"""Causes of death of worker processes, derived from Ray's messages and the end of the log."""

from __future__ import annotations

import signal

import pytest

from strandline.engine.preemption.last_words import (
    FRAMES,
    LINES,
    explain_death,
    explain_hang,
    find_death_cause,
    judge_end,
)
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.exit_codes import ExitCode

# The error message of Ray 2.60.
NO_WORD = (
    "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker "
    "exit detail: Worker unexpectedly exits with a connection error code 2. End of file. Some "
    "common causes include: (1) the process was killed by the OOM killer due to high memory usage, "
    "(2) ray stop --force was called, or (3) the worker crashed unexpectedly due to SIGSEGV."
)
EXITED = "Worker exit detail: Worker exits unexpectedly. Worker exits with an exit code 4."
ENDED = f"{EXITED.replace('4', '1')} The process receives a SIGTERM."
HEAD = ":job_id:01000000\n:actor_name:StageWorker\n"
CRASH = """a last word
[2026-11-26 20:08:44,862 E 14046 14046] logging.cc:474: *** SIGSEGV received at time=1 on cpu 1 ***
[2026-11-26 20:08:44,862 E 14046 14046] logging.cc:474: PC: @     0x7fae6d385ad8  (unknown)
Fatal Python error: Segmentation fault

Stack (most recent call first):
  File "/opt/lib/python3.11/ctypes/__init__.py", line 519 in string_at
  File "/code/die.py", line 8 in die

Extension modules: numpy, pyarrow.lib (total: 2)
"""


@pytest.mark.parametrize(
    ("sentence", "log", "words"),
    [
        (
            NO_WORD,
            HEAD + CRASH,
            "its process died of SIGSEGV in string_at (ctypes/__init__.py:519); "
            "the end of its log: a last word",
        ),
        (
            NO_WORD,
            "Fatal Python error: Aborted\n",
            "its process died of Aborted",
        ),
        (EXITED, HEAD, "its process exited: 4"),
        (ENDED, HEAD, "its process was ended by SIGTERM"),
        (NO_WORD, HEAD, "its process was killed (SIGKILL), or called os._exit"),
        (NO_WORD, "", "its process was killed (SIGKILL), or called os._exit"),
        (EXITED, None, "its process exited: 4; its log is on its node"),
    ],
)
def test_a_death_has_a_description(sentence: str, log: str | None, words: str) -> None:
    assert explain_death(sentence, log) == words


@pytest.mark.parametrize(
    ("sentence", "log", "cause"),
    [
        (NO_WORD, HEAD + CRASH, Cause.APPLICATION_ERROR),
        (NO_WORD, CRASH.replace("SIGSEGV", "SIGABRT"), Cause.APPLICATION_ERROR),
        (NO_WORD, "Fatal Python error: Aborted\n", Cause.APPLICATION_ERROR),
        (EXITED, HEAD, Cause.APPLICATION_ERROR),
        (ENDED, HEAD, Cause.KILLED),
        (NO_WORD, HEAD, Cause.KILLED),
        (NO_WORD, "", Cause.KILLED),
    ],
)
def test_a_crash_is_an_error_of_the_program(sentence: str, log: str, cause: Cause) -> None:
    assert find_death_cause(sentence, log) is cause


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (None, Cause.KILLED),
        (-signal.SIGKILL, Cause.KILLED),
        (-signal.SIGTERM, Cause.KILLED),
        (-signal.SIGSEGV, Cause.APPLICATION_ERROR),
        (-signal.SIGBUS, Cause.APPLICATION_ERROR),
        (-signal.SIGILL, Cause.APPLICATION_ERROR),
        (-signal.SIGFPE, Cause.APPLICATION_ERROR),
        (-signal.SIGABRT, Cause.APPLICATION_ERROR),
        (0, Cause.APPLICATION_ERROR),
        (4, Cause.APPLICATION_ERROR),
        (ExitCode.INTERRUPTED, Cause.APPLICATION_ERROR),
    ],
)
def test_an_exit_code_of_a_worker_is_an_error_of_the_stage(code: int | None, cause: Cause) -> None:
    assert judge_end(code) is cause


def test_the_last_lines_of_a_log_are_shown_without_control_characters() -> None:
    lines = [f"line {number}" for number in range(9)]
    log = HEAD + "\n".join([*lines, "\x1b[31mred\x1b[0m " + "x" * 500, ""])
    _, _, shown = explain_death(EXITED, log).partition("the end of its log: ")
    first, second, last = shown.split(" / ")
    assert (first, second) == ("line 7", "line 8")
    assert len(shown.split(" / ")) == LINES
    assert last.startswith("[31mred[0m xxx")
    assert last.endswith("x…")


# Stacks of a worker in the interpreter's format: the reading thread and the stage's thread.
CALLS = """Thread 0x00007f1c5a7fc6c0 (most recent call first):
  File "/opt/lib/python3.11/threading.py", line 327 in wait
  File "/code/strandline/engine/processes/worker.py", line 180 in _read

"""
STAGE = """Current thread 0x00007f1c6b1fe6c0 (most recent call first):
  File "/opt/lib/python3.11/re/__init__.py", line 176 in search
  File "/code/own/stages.py", line 12 in find_names
  File "/code/own/stages.py", line 20 in process
{deep}  File "/code/strandline/engine/call/stage/trials.py", line 80 in run
  File "/code/strandline/engine/worker/chain_call.py", line 140 in _stream
"""
PLACES = (
    "search (re/__init__.py:176), called from find_names (own/stages.py:12), "
    "called from process (own/stages.py:20)"
)


@pytest.mark.parametrize("stacks", [CALLS + STAGE.format(deep=""), STAGE.format(deep="") + CALLS])
def test_the_stage_lines_of_a_hanging_worker_are_shown(stacks: str) -> None:
    assert explain_hang("too long", stacks) == f"too long, in {PLACES}"


@pytest.mark.parametrize("stacks", ["", "Segmentation", CALLS])
def test_no_line_is_shown_without_the_stage_in_the_stack(stacks: str) -> None:
    assert explain_hang("too long", stacks) == "too long"


def test_the_innermost_lines_of_a_deep_stack_are_shown() -> None:
    deep = "".join(f'  File "/code/own/deep.py", line {n} in call\n' for n in range(300))
    words = explain_hang("too long", STAGE.format(deep=deep))
    assert words == f"too long, in {PLACES}, called from call (own/deep.py:0)"
    assert words.count("called from") == FRAMES - 1
