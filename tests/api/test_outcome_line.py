"""The outcome line is short, survives logging, and is found among arbitrary text."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from strandline_api.outcome.causes import Cause
from strandline_api.outcome.driver_outcome import (
    MARK,
    MAX_LINE_BYTES,
    DriverOutcome,
    SourceCounts,
    find_outcome_line,
    format_outcome_line,
    name_outcome,
)
from strandline_api.outcome.evidence import Evidence

OUTCOME = DriverOutcome(
    exit_code=75,
    outcome="INTERRUPTED",
    message="interrupted; what is finished is kept",
    attempt=3,
    sources=SourceCounts(total=32, finished=4, failed=1, quarantined=2, skipped=20, unfinished=5),
    remaining=12,
    evidence=(Evidence(Cause.OOM_KILLED, "one worker", "cgroup", {"stage": "parse"}),),
    memory_kills=1,
    latest="0007/p0002",
    log_file="logs/20251125T071100.123Z.log",
    lineage=True,
)
LINE = (
    'strandline-outcome: {"exitCode":75,"outcome":"INTERRUPTED",'
    '"message":"interrupted; what is finished is kept","attempt":3,'
    '"sources":{"total":32,"finished":4,"failed":1,"quarantined":2,"skipped":20,"unfinished":5},'
    '"remaining":12,"evidence":[{"cause":"OOMKilled","message":"one worker","source":"cgroup",'
    '"details":{"stage":"parse"}}],"memoryKills":1,"latest":"0007/p0002",'
    '"logFile":"logs/20251125T071100.123Z.log","lineage":true}'
)


def test_redone_sources_are_in_the_line_only_if_any() -> None:
    some = OUTCOME.model_copy(update={"sources": SourceCounts(total=9, redone=4)})
    assert '"redone":4' in format_outcome_line(some)
    found = find_outcome_line(format_outcome_line(some))
    assert found is not None
    assert found.sources.redone == 4


counts = st.integers(0, 2**63 - 1)
details = st.dictionaries(st.text(max_size=9), st.text(max_size=9) | st.integers(), max_size=3)


def pieces(messages: st.SearchStrategy[str]) -> st.SearchStrategy[Evidence]:
    return st.builds(Evidence, st.sampled_from(Cause), messages, st.text(max_size=9), details)


def outcomes(
    messages: st.SearchStrategy[str], evidence: st.SearchStrategy[Evidence], most: int
) -> st.SearchStrategy[DriverOutcome]:
    return st.builds(
        DriverOutcome,
        exit_code=st.integers(0, 255),
        outcome=st.text(max_size=100),
        message=messages,
        attempt=counts,
        sources=st.builds(SourceCounts, total=st.none() | counts, finished=counts, failed=counts),
        remaining=st.none() | counts,
        evidence=st.lists(evidence, max_size=most).map(tuple),
        memory_kills=counts,
    )


# Include messages that look like an outcome line, and must not be mistaken for one.
short = st.text(max_size=60) | st.just(LINE) | st.just(f"{MARK} {{}}")
long = st.builds(str.__mul__, st.text(min_size=1, max_size=30), st.integers(1, 400))
small = outcomes(short, pieces(st.text(max_size=9)), 2)
large = outcomes(short | long, pieces(short | long), 9)


@given(small)
def test_a_short_outcome_survives_unchanged(outcome: DriverOutcome) -> None:
    line = format_outcome_line(outcome)
    assert find_outcome_line(line) == outcome


@given(large)
def test_the_outcome_is_one_short_line(outcome: DriverOutcome) -> None:
    line = format_outcome_line(outcome)
    assert len(line.encode()) <= MAX_LINE_BYTES == 3500
    assert line.isascii()
    assert line.isprintable()


@given(large)
def test_long_texts_lose_only_their_ends(outcome: DriverOutcome) -> None:
    found = find_outcome_line(format_outcome_line(outcome))
    assert found is not None
    assert found.evidence == outcome.evidence[: len(found.evidence)]
    is_whole = found.message == outcome.message
    assert is_whole or outcome.message.startswith(found.message.removesuffix("..."))
    same = {"evidence": outcome.evidence, "message": outcome.message}
    assert found.model_copy(update=same) == outcome


@given(st.text(), small, st.text(alphabet=st.characters(exclude_characters="\n")), st.text())
def test_a_line_is_found_in_any_log(
    before: str, outcome: DriverOutcome, prefix: str, after: str
) -> None:
    log = f"{before}\n{prefix}{format_outcome_line(outcome)}\n{after}"
    assert find_outcome_line(log) == outcome


@given(small, small)
def test_the_last_line_counts(first: DriverOutcome, last: DriverOutcome) -> None:
    log = f"{format_outcome_line(first)}\n{format_outcome_line(last)}\n"
    assert find_outcome_line(log) == last


@given(small, small, st.data())
def test_a_truncated_line_is_ignored(
    first: DriverOutcome, last: DriverOutcome, data: st.DataObject
) -> None:
    line = format_outcome_line(last)
    cut = data.draw(st.integers(0, len(line) - 1))
    assert find_outcome_line(f"{format_outcome_line(first)}\n{line[:cut]}") == first
    assert find_outcome_line(line[cut + 1 :]) is None


_fragments = st.sampled_from([MARK, "{", '{"exitCode":', "[", '"', "\\", "}", "1", "\n", "e9999"])


@given(st.text() | st.lists(_fragments | st.text(max_size=3)).map("".join))
def test_any_text_can_be_searched(text: str) -> None:
    found = find_outcome_line(text)
    assert found is None or isinstance(found, DriverOutcome)


def test_the_line_has_the_published_format() -> None:
    assert format_outcome_line(OUTCOME) == LINE
    assert find_outcome_line(LINE) == OUTCOME


@pytest.mark.parametrize(
    "log",
    [
        f"(pid=412) {LINE}",
        f"\x1b[36m(driver pid=412, ip=10.0.0.7)\x1b[0m {LINE}\x1b[0m [repeated 2x across cluster]",
        f"2026-11-21 10:28:57,142 INFO {LINE}\r\n2026-11-21 INFO job closed\r\n",
        f"Traceback\nValueError: no\n{LINE}\n\n\n",
        f"{LINE}\nstrandline-outcome: {{}}\nstrandline-outcome: soon",
        LINE.replace(": {", ":{", 1),
    ],
)
def test_text_around_the_line_is_ignored(log: str) -> None:
    assert find_outcome_line(log) == OUTCOME


@pytest.mark.parametrize(
    "written",
    [
        "",
        "{}",
        "[]",
        "null",
        "75",
        '{"exitCode": "75"}',
        '{"exitCode": true}',
        '{"exitCode": 75.5}',
        '{"exitCode": -9}',
        '{"exitCode": 256}',
        '{"exitCode": 75, "sources": "all"}',
        '{"exitCode": 75, "sources": {"finished": -1}}',
        '{"exitCode": 75, "evidence": "none"}',
        '{"exitCode": 75, "attempt": 1' + "0" * 5000 + "}",
        '{"exitCode": 75, "more": ' + "[" * 5000 + "]" * 5000 + "}",
        '{\n"exitCode": 75}',
    ],
)
def test_an_invalid_outcome_is_ignored(written: str) -> None:
    assert find_outcome_line(f"{MARK} {written}") is None
    assert find_outcome_line(f"{LINE}\n{MARK} {written}") == OUTCOME


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"exitCode": 1}, {"outcome": "APPLICATION_ERROR"}),
        ({"exitCode": 3, "outcome": None, "sources": None}, {"outcome": "SOURCES_FAILED"}),
        ({"exitCode": 0, "cost": {"eur": 3}}, {"outcome": "COMPLETE"}),
        ({"exitCode": 0, "sources": {"lost": 3}}, {"sources": SourceCounts()}),
        (
            {"exitCode": 137, "evidence": [{"cause": "Meteor", "message": "big"}, 7]},
            {
                "outcome": "KILLED",
                "evidence": (
                    Evidence(Cause.UNKNOWN, "big", ""),
                    Evidence(Cause.UNKNOWN, "", ""),
                ),
            },
        ),
    ],
)
def test_other_versions_are_read(written: dict[str, Any], expected: dict[str, Any]) -> None:
    found = find_outcome_line(f"{MARK} {json.dumps(written)}")
    assert found == DriverOutcome(exit_code=written["exitCode"]).model_copy(update=expected)


def test_a_long_message_is_cut_before_evidence_is_dropped() -> None:
    long = OUTCOME.model_copy(update={"message": "m" * 9000})
    found = find_outcome_line(format_outcome_line(long))
    assert found is not None
    assert found.evidence == OUTCOME.evidence
    assert found.message.startswith("m" * 2900)
    assert found.message.endswith("m...")
    assert len(format_outcome_line(long)) == MAX_LINE_BYTES


def test_evidence_is_dropped_from_the_end_if_still_too_long() -> None:
    evidence = tuple(Evidence(Cause.KILLED, f"{at}" * 400, "ray") for at in range(9))
    long = OUTCOME.model_copy(update={"message": "m" * 9000, "evidence": evidence})
    found = find_outcome_line(format_outcome_line(long))
    assert found is not None
    assert found.evidence == evidence[:4]
    assert len(found.message) >= 1000


def test_odd_bytes_of_a_file_name_do_not_stop_the_line() -> None:
    name = b"caf\xe9.txt".decode("utf-8", "surrogateescape")
    outcome = DriverOutcome(exit_code=1, message=f"can't read {name}")
    assert outcome.message == "can't read caf\\udce9.txt"
    assert find_outcome_line(format_outcome_line(outcome)) == outcome


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (0, "COMPLETE"),
        (75, "INTERRUPTED"),
        (137, "KILLED"),
        (-15, "KILLED"),
        (2, "APPLICATION_ERROR"),
    ],
)
def test_an_exit_code_has_a_name(code: int, name: str) -> None:
    assert name_outcome(code) == name


def test_an_outcome_is_immutable_and_needs_an_exit_code() -> None:
    with pytest.raises(ValidationError):
        OUTCOME.message = "another"  # type: ignore[misc]
    with pytest.raises(ValidationError):
        DriverOutcome.model_validate({})
