"""The pipe through which a driver that could not begin says why."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from strandline.run.supervise.driver_process import MOST_BYTES, VARIABLE, LastWords, leaving_words


def say_and_read(error: Exception | None) -> str:
    words = LastWords.open()
    environment = {VARIABLE: str(os.dup(words.sink))}
    sink = int(environment[VARIABLE])
    try:
        if error is None:
            with leaving_words(environment):
                pass
        else:
            with pytest.raises(type(error)), leaving_words(environment):
                raise error
        assert VARIABLE not in environment
        assert not os.get_inheritable(sink)
    finally:
        os.close(sink)
    return words.read()


def test_a_sentence_arrives() -> None:
    assert say_and_read(ValueError("spec.sink: missing")) == "spec.sink: missing"


def test_several_lines_become_one() -> None:
    assert say_and_read(ValueError("first\n\n  second\n")) == "first; second"


def test_a_long_sentence_is_cut() -> None:
    assert say_and_read(ValueError("x" * 100_000)) == "x" * MOST_BYTES


def test_no_error_leaves_no_words() -> None:
    assert say_and_read(None) == ""


def test_nobody_listens() -> None:
    with pytest.raises(ValueError, match="as it was"), leaving_words({}):
        raise ValueError("as it was")


def test_a_survivor_that_holds_the_pipe_keeps_nobody_waiting() -> None:
    words = LastWords.open()
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    survivor = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=(words.sink,))
    try:
        assert words.read() == ""
    finally:
        survivor.communicate()
