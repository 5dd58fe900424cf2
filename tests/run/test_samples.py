"""Samples of an attempt: their number is limited in long attempts, and no counts are lost."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.engine.core.ports import RunProgress
from strandline.engine.flow.flow import Flow
from strandline.plan.receipt import StageCounts
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.folder.sampler import KEEP_SECONDS, Sampler
from strandline.run.insight.samples import (
    INTERVAL,
    LIMIT,
    Sample,
    Samples,
    Series,
    StagePoint,
    locate_samples,
    read_samples,
    thin,
)
from strandline.run.manifest.manifest import read_manifest
from strandline.storage.layout import PipelineFolder

MANIFEST = """
apiVersion: strandline.dev/v1alpha1
kind: CurationPipeline
metadata: {name: letters}
spec:
  source: {use: files, with: {paths: ["FOLDER/*.txt"]}}
  stages: [{use: read-files}]
  sink: {use: jsonl}
"""


def sample(seconds: float, done: int = 0) -> Sample:
    return Sample(seconds, done, 0, (StagePoint(done, 2 * done),))


@given(
    pauses=st.lists(st.floats(0.1, 1.5), min_size=10, max_size=50),
    turns=st.integers(1, 60),
    is_ended=st.booleans(),
)
def test_law_a_series_is_bounded_and_keeps_its_ends(
    pauses: list[float], turns: int, is_ended: bool
) -> None:
    series, now = Series(0.5), 0.0
    taken: list[Sample] = []
    for pause in [0.0, *pauses * turns]:
        now += pause
        if series.is_due(now):
            taken.append(sample(now, len(taken)))
            series.add(taken[-1])
    if is_ended:
        now += 0.001
        taken.append(sample(now, len(taken)))
        series.add(taken[-1])
    kept = list(series.samples)
    assert len(kept) <= LIMIT
    assert (kept[0], kept[-1]) == (taken[0], taken[-1])
    assert set(kept) <= set(taken)
    assert all(left.seconds < right.seconds for left, right in pairwise(kept))
    # Gaps grow only by halving the samples, which doubles the interval, and by late reports.
    longest = series.interval * (1 + 1.5 / 0.5) * 1.0001
    assert all(b.seconds - a.seconds <= longest for a, b in pairwise(kept))


def test_a_long_attempt_is_kept_in_coarse_steps() -> None:
    series = Series()
    for tick in range(200_000):
        if series.is_due(float(tick)):
            series.add(sample(float(tick), tick))
    assert LIMIT / 2 <= len(series.samples) <= LIMIT
    assert 100 * INTERVAL < series.interval <= 4 * 200_000 / LIMIT  # as fine as the limit allows
    assert series.samples[0] == sample(0.0)
    assert series.samples[-1].seconds + series.interval >= 199_999
    steps = {b.seconds - a.seconds for a, b in pairwise(series.samples)}
    assert max(steps) <= series.interval


def test_a_sample_of_the_same_moment_replaces_the_last() -> None:
    series = Series()
    for done in (1, 2, 3):
        series.add(sample(5.0, done))
    assert series.samples == [sample(5.0, 3)]


@given(points=st.lists(st.integers(), max_size=300), limit=st.integers(2, 50))
def test_law_thinning_keeps_order_and_ends(points: list[int], limit: int) -> None:
    places = list(enumerate(points))
    kept = thin(places, limit)
    assert len(kept) == min(len(points), limit)
    assert kept == sorted(set(kept))
    assert set(kept) <= set(places)
    assert kept[:1] == places[:1]
    assert kept[-1:] == places[-1:]
    if len(kept) > 1:
        step = len(points) / (len(kept) - 1)
        assert all(b[0] - a[0] <= step + 1 for a, b in pairwise(kept))


def test_a_sampler_writes_beside_the_attempt(tmp_path: Path) -> None:
    folder, now = PipelineFolder(tmp_path), [100.0]
    folder.attempt(3).mkdir(parents=True)
    sampler = Sampler(folder, 3, lambda: now[0], lambda: 1_800_000_000.0)
    sampler.take(0, {"read": StageCounts(tasks_in=1, rows_in=5)})
    now[0] += 12.5
    sampler.take(4, {"read": StageCounts(tasks_in=6, rows_in=30)})
    kept = read_samples(folder, 3)
    assert kept is not None
    assert (kept.begun, kept.stages) == (1_800_000_000.0, ("read",))
    assert kept.samples == (
        Sample(0.0, 0, 0, (StagePoint(1, 5),)),
        Sample(12.5, 4, 0, (StagePoint(6, 30),)),
    )


@pytest.mark.parametrize("content", [b"", b"{half", b"[]", b'{"begun": 1, "samples": 5}'])
def test_unreadable_samples_are_empty(tmp_path: Path, content: bytes) -> None:
    folder = PipelineFolder(tmp_path)
    assert read_samples(folder, 1) is None
    folder.attempt(1).mkdir(parents=True)
    locate_samples(folder, 1).write_bytes(content)
    assert read_samples(folder, 1) is None


@pytest.mark.parametrize("moment", ["NaN", "Infinity", "1e18", "-1"])
def test_samples_with_an_invalid_time_are_ignored(tmp_path: Path, moment: str) -> None:
    folder = PipelineFolder(tmp_path)
    folder.attempt(1).mkdir(parents=True)
    for begun, seconds in ((moment, "1"), ("1", moment)):
        content = f'{{"begun": {begun}, "stages": [], "samples": [[{seconds}, 2, 3, []]]}}'
        locate_samples(folder, 1).write_text(content)
        assert read_samples(folder, 1) is None


def test_samples_of_a_later_version_are_read(tmp_path: Path) -> None:
    folder = PipelineFolder(tmp_path)
    folder.attempt(1).mkdir(parents=True)
    later = {"begun": 1.0, "stages": [], "samples": [[1.0, 2, 3, []]], "unit": "seconds"}
    locate_samples(folder, 1).write_text(json.dumps(later))
    kept = read_samples(folder, 1)
    assert kept is not None
    assert kept.samples == (Sample(1.0, 2, 3, ()),)


def test_an_attempt_leaves_its_samples(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in "abc":
        (tmp_path / f"in/{name}.txt").write_text(name)
    path = tmp_path / "letters.yaml"
    path.write_text(MANIFEST.replace("FOLDER", str(tmp_path / "in")))
    run_attempt(AttemptConfig(read_manifest(path).plan, tmp_path, engine="inline"))

    kept = read_samples(PipelineFolder.on_volume(tmp_path, "default", "letters"), 1)

    assert kept is not None
    assert kept.stages == ("read-files", "jsonl")
    last = kept.samples[-1]
    assert (last.finished, last.failed) == (3, 0)
    assert last.stages == (StagePoint(3, 3), StagePoint(3, 3))
    assert kept.counts["read-files"] == replace(kept.counts["read-files"], tasks_in=3, rows_out=3)


def test_counts_are_kept_when_samples_have_become_rare(tmp_path: Path) -> None:
    folder, now = PipelineFolder(tmp_path), [0.0]
    folder.attempt(1).mkdir(parents=True)
    sampler = Sampler(folder, 1, lambda: now[0], lambda: 1_800_000_000.0)
    path = tmp_path / "letters.yaml"
    path.write_text(MANIFEST)
    flow = Flow(read_manifest(path).plan)
    read = flow.queues[0].counts
    progress = RunProgress(flow, 9, 0, 4, False, [])
    for _ in range(1300):
        now[0] += 30.0
        sampler.report(progress)
    now[0] += 1.0
    sampler.take(4, {"read-files": read})
    now[0] += KEEP_SECONDS  # before the next sample is due
    read.tasks_in, read.counters["dropped: empty"] = 7, 3
    before = _read(folder).samples

    sampler.report(progress)

    assert _read(folder).counts["read-files"] == read
    assert _read(folder).samples == before


def _read(folder: PipelineFolder) -> Samples:
    samples = read_samples(folder, 1)
    assert samples is not None
    return samples
