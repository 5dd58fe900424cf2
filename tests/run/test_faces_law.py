"""Random rounds of changes, failures, kills, and retries: all counts agree after each round."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from counted_faces import CountedRuns, keep
from example_counts import scale_examples
from failing_stages import MENDED
from number_runs import Item
from pipeline_runs import CrashError
from strandline.storage import faults
from tuned_stages import BROKEN
from tuning import FILES, add

EVENTS = ("limit", "add", "break", "repair", "write", "remove", "kill", "retry")
OPTIONS: dict[str, Any] = {
    "listing": {"onRemoved": "Delete"},
    "quarantine": {"after": 99, "tolerate": FILES},
}
THREES: Item = {"use": "failing_stages:RefuseThrees", "name": "threes", "onError": "deadLetter"}


class CountedRound:
    """A pipeline and the events that happen to it.

    Args:
        keeps: True if the stage before the filter keeps its output.
        sink: sink of the pipeline.
    """

    def __init__(self, folder: Path, *, keeps: bool, sink: Item) -> None:
        folder.mkdir(parents=True)
        self.runs = CountedRuns(folder)
        self._keeps, self._sink = keeps, sink
        self._limit, self._by = 30, 0

    def run(self, **options: Any) -> None:
        stages = (
            add(self._by, keep=self._keeps),
            THREES,
            keep(self._limit),
            {"use": "tuned_stages:Refuse", "name": "refuse"},
        )
        self.runs.run(*stages, sink=self._sink, **{**OPTIONS, **options})

    def play(self, event: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """Play an event, and run the pipeline."""
        file = number % FILES
        if event == "limit":
            self._limit = 5 + number
        elif event == "add":
            self._by = number
        elif event == "break":
            BROKEN.add(number)
        elif event == "repair":
            BROKEN.clear()
        elif event == "write":
            self.runs.write(file, range(number, 2 * number))
        elif event == "remove":
            (self.runs.texts / f"{file}.jsonl").unlink(missing_ok=True)
        elif event == "kill":
            self._limit = 5 + number
            self._kill(number, monkeypatch)
        self.run()
        if event == "retry":
            self.run(dead_letters="threes", on_change="Fail")

    def _kill(self, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
        steps = iter(range(number))

        def reach(step: str) -> None:
            if next(steps, None) is None:
                raise CrashError(step)

        with monkeypatch.context() as patch, suppress(CrashError):
            patch.setattr(faults, "reach", reach)
            self.run()


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    yield
    MENDED.clear()
    BROKEN.clear()


@settings(
    max_examples=scale_examples(5),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)
@given(
    events=st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(1, 40)), max_size=4),
    keeps=st.booleans(),
    is_shared=st.booleans(),
)
# The new version of a finished source fails, so files of the former version remain.
@example(events=[("break", 26), ("write", 23)], keeps=False, is_shared=False)
def test_law_all_views_agree_after_any_round_and_end_as_a_fresh_run(
    events: list[tuple[str, int]],
    keeps: bool,
    is_shared: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    MENDED.clear()
    BROKEN.clear()
    sink: Item = {"use": "parquet", "with": {"targetBytes": 1_000_000} if is_shared else {}}
    one = CountedRound(tmp_path / uuid4().hex / "changed", keeps=keeps, sink=sink)
    one.run()
    one.runs.check_agreement()
    for event, number in events:
        one.play(event, number, monkeypatch)
        one.runs.check_agreement()
    BROKEN.clear()
    one.run()
    MENDED.add("threes")
    one.run(dead_letters="threes", on_change="Fail")
    one.runs.check_agreement()

    fresh = CountedRound(tmp_path / uuid4().hex / "fresh", keeps=keeps, sink=sink)
    vars(fresh).update({name: value for name, value in vars(one).items() if name != "runs"})
    fresh.runs.texts = one.runs.texts
    fresh.run()
    assert one.runs.read_faces() == fresh.runs.read_faces()
