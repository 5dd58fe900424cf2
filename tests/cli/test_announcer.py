"""Messages between attempts, as written to a log, to a terminal, and for scripts."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from strandline.cli.views.announcer import (
    Announcer,
    JsonAnnouncer,
    TerminalAnnouncer,
    create_announcer,
)
from strandline.run.supervise.supervision import EndedAttempt
from strandline.storage.errors import HeldError
from strandline_api.documents.problems import Problem, SpecError
from strandline_api.law.retry import GiveUp, PastAttempt, RetryAt, decide
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.driver_outcome import DriverOutcome, SourceCounts, find_outcome_line
from strandline_api.outcome.evidence import Evidence, read_exit
from strandline_api.spec.policy import RetryPolicy

Capture = pytest.CaptureFixture[str]


def ended_with(
    code: int, *, is_reported: bool = False, attempt: int = 2, **fields: Any
) -> EndedAttempt:
    seen = tuple(filter(None, [read_exit(code)]))
    known = {"message": "killed by signal 9 (SIGKILL)", "evidence": seen, **fields}
    outcome = DriverOutcome(
        exit_code=code, attempt=attempt, sources=SourceCounts(finished=1), **known
    )
    return EndedAttempt(outcome, 7.0, "id", is_stopped=False, is_reported=is_reported)


def retry_after(cause: Cause) -> RetryAt:
    decision = decide(
        RetryPolicy(jitter="none"), [PastAttempt(1, cause, 100.0)], 100.0, uid="", drawn=0.0
    )
    assert isinstance(decision, RetryAt)
    return decision


def read(capsys: Capture) -> str:
    said = capsys.readouterr()
    assert said.out == ""
    return said.err


def read_json(capsys: Capture) -> list[dict[str, Any]]:
    said = capsys.readouterr()
    assert said.err == ""
    return [json.loads(line) for line in said.out.splitlines()]


def test_an_end_printed_by_the_driver_is_not_repeated(capsys: Capture) -> None:
    for announcer in (Announcer(), JsonAnnouncer()):
        announcer.attempt_ended(ended_with(3, is_reported=True))
    assert read(capsys) == ""


def test_an_end_without_a_drivers_message_is_printed(capsys: Capture) -> None:
    Announcer().attempt_ended(ended_with(137))
    told = "ended with Killed: killed by signal 9 (SIGKILL); 1 source finished by it\n"
    assert read(capsys) == f"attempt 2 {told}"
    Announcer().attempt_ended(ended_with(137, attempt=0))
    assert read(capsys) == f"the attempt {told}"


def test_outside_text_does_not_break_the_line(capsys: Capture) -> None:
    Announcer().attempt_ended(ended_with(1, message="two\nlines \x1b[31m"))
    assert "two\\nlines \\x1b[31m; 1 source" in read(capsys)


def test_a_log_gets_one_line_per_wait(capsys: Capture) -> None:
    with Announcer().waiting(retry_after(Cause.OOM_KILLED)) as show:
        for left in (58.0, 57.0, 3.0, 0.0):
            show(left)
    assert read(capsys) == "retry 1 of 3 in 00:58 after OOMKilled\n"


def test_a_terminal_counts_down_in_place(capsys: Capture) -> None:
    with TerminalAnnouncer().waiting(retry_after(Cause.NODE_LOST)) as show:
        for left in (2.0, 1.0):
            show(left)
    line = "\rdisruption 1 of 100, retry in 00:0{} after NodeLost"
    assert read(capsys) == f"{line.format(2)}{line.format(1)}\n"


def test_the_reason_for_no_retry_is_printed_unless_retries_are_impossible(capsys: Capture) -> None:
    why = GiveUp("attempt 2 ended with Killed, and retries are off: maxRetries is 0")
    Announcer().give_up(ended_with(137), why)
    assert read(capsys) == f"no further attempt: {why.why}\n"
    Announcer().give_up(ended_with(64), GiveUp("attempt 2 ended with InvalidSpec, which is never"))
    lasting = ended_with(1)._replace(is_lasting=True)
    Announcer().give_up(lasting, GiveUp("another attempt would end the same way"))
    assert read(capsys) == ""


def test_an_interrupted_wait_is_reported(capsys: Capture) -> None:
    told = "stopped while waiting for the next attempt; run it again to continue"
    Announcer().stopped()
    assert read(capsys) == f"{told}\n"
    JsonAnnouncer().stopped()
    (line,) = read_json(capsys)
    assert line == {
        "event": "outcome",
        "outcome": "INTERRUPTED",
        "exitCode": 75,
        "message": told,
    }


def test_the_last_line_of_a_single_attempt_is_recognizable(capsys: Capture) -> None:
    ended = ended_with(137)
    Announcer().end(ended)
    said = read(capsys)
    assert said.splitlines()[0].startswith("attempt 2 ended with Killed")
    assert find_outcome_line(said) == ended.outcome
    told = ended_with(0, is_reported=True, message="complete")
    JsonAnnouncer().end(told)
    assert find_outcome_line(read(capsys)) == told.outcome


def test_a_script_gets_the_end_the_retry_and_no_wait(capsys: Capture) -> None:
    announcer, retry = JsonAnnouncer(), retry_after(Cause.KILLED)
    announcer.attempt_ended(ended_with(137))
    announcer.retry(retry)
    with announcer.waiting(retry) as show:
        show(60.0)
    announcer.give_up(ended_with(137), GiveUp("enough"))
    end, event = read_json(capsys)
    assert ("outcome", "KILLED", 137, 2, "Killed") == (
        end["event"],
        end["outcome"],
        end["exitCode"],
        end["attempt"],
        end["cause"],
    )
    assert 1 == end["sources"]["finished"]
    assert event == {
        "event": "retry",
        "cause": "Killed",
        "retry": 1,
        "of": 3,
        "seconds": 60.0,
        "message": retry.why,
    }


@pytest.mark.parametrize(
    ("error", "code"), [(HeldError("taken"), 69), (SpecError((Problem("spec", "taken"),)), 64)]
)
def test_an_error_is_an_outcome_for_scripts(error: Exception, code: int, capsys: Capture) -> None:
    with pytest.raises(type(error)), JsonAnnouncer().failing():
        raise error
    (line,) = read_json(capsys)
    assert (code, True) == (line["exitCode"], "taken" in line["message"])
    with pytest.raises(type(error)), Announcer().failing():
        raise error
    assert read(capsys) == ""  # the command line prints the error instead


@pytest.mark.parametrize(
    ("is_json", "is_terminal", "kind"),
    [(True, True, JsonAnnouncer), (False, True, TerminalAnnouncer), (False, False, Announcer)],
)
def test_the_announcer_depends_on_the_output(
    is_json: bool, is_terminal: bool, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    assert type(create_announcer(is_json=is_json)) is kind


def test_the_cause_is_chosen_from_all_evidence(capsys: Capture) -> None:
    seen = (Evidence(Cause.KILLED, "killed", "signal"), Evidence(Cause.EVICTED, "moved", "pod"))
    Announcer().attempt_ended(ended_with(137, evidence=seen))
    assert read(capsys).startswith("attempt 2 ended with Evicted")
