"""Streams and stops on all engines: each piece arrives once, and no work is lost after a stop."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from conformance import ConformanceRuns, StoredRun, completes, every, list_engines
from conformance_scenarios import PIECE_SOURCES, PIECES, STOPPED_SOURCES, WAITING, pieces, stopped
from strandline_api.outcome.exit_codes import ExitCode

pytestmark = pytest.mark.first(reason="runs streams and stops on each engine")

stopping = list_engines(completes("stopped"), more=True)
TORN = 1  # the source that raises midway


def name_pieces() -> list[str]:
    return [
        f"{source}-{piece}"
        for source in range(PIECE_SOURCES)
        for piece in range(PIECES)
        if source != TORN
    ]


@every
def test_each_piece_of_a_finished_source_is_made_and_written_once(
    engine: str, runs: ConformanceRuns
) -> None:
    run = runs.get(pieces, engine)["first"]
    assert run.volume is not None
    lines = (run.volume.parent / "log").read_text().splitlines()
    whole = [line for line in lines if f" {TORN}-" not in line]
    assert Counter(whole) == Counter(
        f"{action} {piece}" for action in ("made", "written") for piece in name_pieces()
    )
    texts = [content.decode() for content in run.outputs.values()]
    assert sorted(text for text in texts if not text.startswith(f"{TORN}-")) == sorted(
        name_pieces()
    )


@every
def test_a_generator_that_raises_midway_fails_its_source_alone(
    engine: str, runs: ConformanceRuns
) -> None:
    run = runs.get(pieces, engine)["first"]
    assert run.result.code is ExitCode.SOURCES_FAILED
    assert (run.result.standing.finished, run.result.standing.failed) == (PIECE_SOURCES - 1, 1)
    (failure,) = run.failures.values()
    assert (failure.key, failure.stage) == (f"number-{TORN}", "pieces")
    assert "ValueError: torn" in failure.message
    assert run.problems == []


@pytest.fixture
def halted(runs: ConformanceRuns, engine: str) -> tuple[StoredRun, StoredRun]:
    """Return the stopped attempt of an engine, and the attempt that finishes the work."""
    attempts = runs.get(stopped, engine)
    return attempts["first"], attempts["rest"]


@stopping
def test_a_stop_finishes_the_file_that_was_filling(halted: tuple[StoredRun, StoredRun]) -> None:
    first, _ = halted
    finished = first.result.standing.finished
    assert first.result.code is ExitCode.INTERRUPTED
    assert WAITING <= finished < STOPPED_SOURCES
    assert len(first.outputs) == 1
    assert len(read_numbers(first)) == finished == first.reports[-1][-1]
    assert first.problems == []


@stopping
def test_the_next_attempt_does_the_remaining_work(halted: tuple[StoredRun, StoredRun]) -> None:
    first, rest = halted
    standing = rest.result.standing
    assert rest.result.code is ExitCode.COMPLETE
    assert standing.skipped == first.result.standing.finished
    assert standing.finished + standing.skipped == STOPPED_SOURCES
    assert Counter(read_numbers(rest)) == Counter(range(STOPPED_SOURCES))
    assert rest.problems == []


def read_numbers(run: StoredRun) -> list[int]:
    lines = [line for content in run.outputs.values() for line in content.splitlines()]
    return [json.loads(line)["number"] for line in lines]
