"""The pipe through which a driver reports why it could not start."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from strandline.plan.errors import StrandlineError
from strandline.run.supervise.driver.driver_message import (
    MOST_BYTES,
    DriverMessage,
    LastMessage,
    leaving_message,
)
from strandline.run.supervise.variables import LAST_WORDS


def say_and_read(error: Exception | None) -> LastMessage:
    words = DriverMessage.open()
    environment = {LAST_WORDS: str(os.dup(words.sink))}
    sink = int(environment[LAST_WORDS])
    try:
        if error is None:
            with leaving_message(environment):
                pass
        else:
            with pytest.raises(type(error)), leaving_message(environment):
                raise error
        assert LAST_WORDS not in environment
        assert not os.get_inheritable(sink)
    finally:
        os.close(sink)
    return words.read()


def test_a_message_arrives() -> None:
    assert say_and_read(ValueError("spec.sink: missing")) == ("spec.sink: missing", False)


def test_several_lines_become_one() -> None:
    assert say_and_read(ValueError("first\n\n  second\n")).text == "first; second"


def test_a_long_sentence_is_cut() -> None:
    assert say_and_read(ValueError("x" * 100_000)).text == "x" * (MOST_BYTES - 1)


def test_lasting_errors_are_marked() -> None:
    error = StrandlineError("no model of that name")
    error.is_lasting = True
    assert say_and_read(error) == ("no model of that name", True)
    assert say_and_read(StrandlineError("lasting")) == ("lasting", False)


def test_no_error_leaves_no_message() -> None:
    assert say_and_read(None) == ("", False)


def test_a_message_without_a_reader_is_dropped() -> None:
    with pytest.raises(ValueError, match="as it was"), leaving_message({}):
        raise ValueError("as it was")


def test_a_surviving_process_that_holds_the_pipe_causes_no_wait() -> None:
    words = DriverMessage.open()
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    survivor = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=(words.sink,))
    try:
        assert words.read() == ("", False)
    finally:
        survivor.communicate()
