"""Rows dropped by a Bloom filter of another corpus: every seen row, and few new rows."""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatherings import Gathering
from stage_runs import StageRun
from strandline.data.files.opening import ChangedListError, UnreadableFileError
from strandline.plan.fingerprint import compute_fingerprint
from strandline.plan.stages.registry import find_stage
from strandline_packs.dedup.drop_duplicates import Normalisation
from strandline_packs.dedup.seen.bloom_filter import (
    BloomShape,
    Digests,
    find_in_bits,
    plan_shape,
    write_bits,
)
from strandline_packs.dedup.seen.digest_files import DTYPE, join_digests, read_digests
from strandline_packs.dedup.seen.filter_file import FilterHead, read_filter, write_filter

NUMBERS = st.integers(0, 2**64 - 1) | st.integers(0, 9) | st.integers(2**64 - 9, 2**64 - 1)
CRAWLS = """
apiVersion: strandline.dev/v1alpha1
kind: CurationPipeline
metadata: {name: old}
spec:
  source: {use: jsonl-files, with: {paths: ["old-*.jsonl"]}}
  stages: [{use: read-jsonl}, {use: fill-bloom}]
  sink: {use: jsonl}
---
apiVersion: strandline.dev/v1alpha1
kind: CurationPipeline
metadata: {name: new}
spec:
  source: {use: jsonl-files, with: {paths: ["new-*.jsonl"]}}
  stages:
    - use: read-jsonl
    - use: drop-seen
      with: {paths: [{pipeline: old, artifact: fill-bloom.seen.bloom}]}
  sink: {use: jsonl}
"""
TEXTS = ["the tide turned", "the boats lifted", "the light was lit", "nobody wrote", "a gull"]


def make(numbers: Sequence[int]) -> Digests:
    """Return sorted, unique digests."""
    return np.unique(np.array(numbers, DTYPE))


def write(path: Path, digests: Digests, error_rate: float = 0.01) -> FilterHead:
    return write_filter(path, digests, error_rate, ("text",), Normalisation.NONE)


def fill(folder: Path, texts: Sequence[str], cuts: Sequence[int] = (), **values: object) -> str:
    """Make the filter of some texts, split into tasks."""
    folder.mkdir()
    gathering = Gathering(folder, "fill-bloom", **values)
    edges = [0, *cuts, len(texts)]
    tables = [pa.table({"text": pa.array(texts[a:b], pa.string())}) for a, b in pairwise(edges)]
    pieces = gathering.pieces(tables)
    assert tables == gathering.passed
    joined = gathering.merge([gathering.merge(pieces[:2]), *pieces[2:]])
    found, facts = gathering.artifacts(joined)
    assert json.loads(found.read_bytes()[:4096]) == json.loads(facts.read_text())
    return str(found)


@given(st.lists(st.lists(NUMBERS, max_size=9), max_size=5), st.integers(1, 4))
def test_law_sets_are_merged_in_order_with_little_memory(
    tmp_path_factory: pytest.TempPathFactory, sets: list[list[int]], portion: int
) -> None:
    folder = tmp_path_factory.mktemp("sets")
    paths = [folder / str(at) for at in range(len(sets))]
    for path, numbers in zip(paths, sets, strict=True):
        path.write_bytes(make(numbers).tobytes())
    join_digests(paths, folder / "out", portion)
    expected = sorted({number for numbers in sets for number in numbers})
    assert expected == read_digests(folder / "out").tolist()


@given(
    st.lists(NUMBERS, max_size=40),
    st.sampled_from([0.4, 0.1, 0.01, 1e-6]),
    st.sampled_from([1, 7, 64, 1 << 20]),
)
def test_law_added_rows_are_found(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[int], rate: float, segment: int
) -> None:
    path = tmp_path_factory.mktemp("filters") / "seen.bloom"
    with pytest.MonkeyPatch.context() as patch:  # for many segments, some of them full
        patch.setattr("strandline_packs.dedup.seen.bloom_filter._SEGMENT_BYTES", segment)
        patch.setattr("strandline_packs.dedup.seen.bloom_filter._LEAST_BYTES", 1)
        head = write(path, make(numbers), rate)
    assert head.error_rate <= rate
    assert all(read_filter(str(path)).find(make(numbers)))


@pytest.mark.parametrize("segments", [1, 3, 7, 1000])
def test_a_digest_at_the_edge_of_a_segment_is_found_in_its_segment(segments: int) -> None:
    edges = [-(-(at << 32) // segments) << 32 for at in range(segments)]
    digests = make([*edges, *(edge - 1 for edge in edges[1:]), 2**64 - 1])
    shape, file = BloomShape(20, segments, 64), io.BytesIO()
    write_bits(digests, shape, file)
    assert shape.bytes == len(file.getvalue())
    assert all(find_in_bits(digests, shape, np.frombuffer(file.getvalue(), np.uint8)))


@given(st.permutations(TEXTS), st.lists(st.integers(0, 5), max_size=4).map(sorted))
def test_law_a_filter_depends_only_on_the_set_of_its_rows(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], cuts: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("filters")
    one = fill(folder / "one", [*TEXTS, "", TEXTS[0]])
    other = fill(folder / "other", [*texts, " \n"], cuts)
    assert Path(one).read_bytes() == Path(other).read_bytes()


@pytest.mark.parametrize(("keys", "rate"), [(300, 0.1), (20_000, 0.01), (20_000, 0.001)])
def test_new_rows_are_dropped_at_the_requested_rate_or_less(
    tmp_path: Path, keys: int, rate: float
) -> None:
    drawn = np.random.default_rng(8).integers(0, 2**64, keys + 200_000, np.uint64)
    head = write(tmp_path / "f", np.unique(drawn[:keys]), rate)
    mistaken = sum(read_filter(str(tmp_path / "f")).find(drawn[keys:]))
    assert head.error_rate <= rate
    # The recorded rate must match these bits, within four standard deviations.
    expected = head.error_rate * 200_000
    assert mistaken == pytest.approx(expected, abs=4 * expected**0.5)
    assert head.shape.bytes * 8 < max(keys * 1.1 * 1.45 * np.log2(1 / rate), 4097)


def test_an_overfull_filter_is_made_larger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "strandline_packs.dedup.seen.filter_file.plan_shape",
        lambda keys, rate: plan_shape(keys, rate, spare=0.8),
    )
    digests = np.random.default_rng(8).integers(0, 2**64, 5000, np.uint64)
    assert write(tmp_path / "f", np.unique(digests)).error_rate <= 0.01
    assert all(read_filter(str(tmp_path / "f")).find(digests))


def test_large_filters_have_segments_of_a_megabyte() -> None:
    shape = plan_shape(1_000_000_000, 0.001)
    assert (10, 1 << 20) == (shape.hashes, -(-shape.segment_bytes >> 12) << 12)
    assert 1.8e9 < shape.bytes < 1.83e9


def test_seen_rows_are_dropped_and_empty_ones_never(tmp_path: Path) -> None:
    stage = StageRun("drop-seen", paths=[fill(tmp_path / "filter", [*TEXTS[:3], ""], [1])])
    texts = [TEXTS[0], "new", "", None, f"  {TEXTS[2]} \n"]
    assert ["new", None, None] == [text or None for text in stage.column("text", texts)]
    assert {"dropped: seen": 2} == stage.counters
    assert stage.table([{"text": TEXTS[1]}]) is None


def test_a_row_in_any_filter_is_dropped_by_that_filters_settings(tmp_path: Path) -> None:
    one = fill(tmp_path / "one", TEXTS[:1], normalise="case")
    other = fill(tmp_path / "other", TEXTS[1:2], normalise="none")
    stage = StageRun("drop-seen", paths=[one, other], columns=["body"])
    texts = [TEXTS[0].upper(), TEXTS[1].upper(), TEXTS[1], TEXTS[2]]
    assert [texts[1], texts[3]] == stage.column("body", texts)
    with pytest.raises(
        UnreadableFileError, match="the filter was made of text; name as many columns"
    ):
        StageRun("drop-seen", paths=[one], columns=["host", "title"])


def test_a_corpus_without_rows_has_a_filter_that_drops_nothing(tmp_path: Path) -> None:
    stage = StageRun("drop-seen", paths=[fill(tmp_path / "filter", [])])
    assert TEXTS == stage.column("text", TEXTS)


def test_the_fingerprint_covers_filters_but_not_their_error_rates(tmp_path: Path) -> None:
    path = fill(tmp_path / "filter", TEXTS)
    drops = find_stage("drop-seen")(paths=[path])
    before = drops.digest_inputs()
    assert ["paths[0]"] == list(before)
    Path(path).write_bytes(Path(fill(tmp_path / "changed", TEXTS[1:])).read_bytes())
    with pytest.raises(ChangedListError, match="the filter has changed during the run"):
        drops.setup()
    assert before != find_stage("drop-seen")(paths=[path]).digest_inputs()
    marks = {
        compute_fingerprint({"f": ("fill-bloom", find_stage("fill-bloom")(**values), None)}).digest
        for values in ({}, {"error_rate": 0.2}, {"normalise": "case"})
    }
    assert 2 == len(marks)


def test_an_unreadable_filter_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "seen.bloom"
    absent = find_stage("drop-seen")(paths=[str(path)])  # another pipeline may create the file
    with pytest.raises(UnreadableFileError, match=r"seen\.bloom: No such file"):
        absent.setup()
    path.write_text("{}")
    with pytest.raises(UnreadableFileError, match="not a filter written by `fill-bloom`"):
        read_filter(str(path))
    write(path, make([1, 2]))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UnreadableFileError, match="should have 512 bytes of bits, not 511"):
        read_filter(str(path))
    with pytest.raises(ValueError, match="odd://b/x: Protocol not known"):
        StageRun("drop-seen", paths=["odd://b/x"])


def test_filters_keep_their_format(tmp_path: Path) -> None:
    """Stored filters outlive releases, so a later release must find the added rows."""
    generator = random.Random(8)
    write(tmp_path / "f", make([generator.getrandbits(64) for _ in range(100)]))
    bits = (tmp_path / "f").read_bytes()[4096:]
    assert "010c80240a240988008081008809e858" == bits[:16].hex()


@pytest.mark.more
@pytest.mark.slow
def test_two_killed_crawls_keep_the_same_rows_as_undisturbed_crawls(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "crawls.yaml").write_text(CRAWLS)
    pages = [f"page {at} of the harbour" for at in range(180)]
    for name, mine in (("old", pages[:120]), ("new", pages[60:])):
        for number in range(6):
            lines = [json.dumps({"text": text}) for text in mine[number::6]]
            (folder / f"{name}-{number}.jsonl").write_text("\n".join(lines))
    volume = folder / "strandline-data" / "default"
    killed = ["output.renamed:kill:3", "merged.written:kill:1", "output.renamed:kill:4"]
    assert [137, 137, 137, 0] == [run_crawls(folder, fault) for fault in (*killed, "")]
    outputs = list((volume / "new/output").rglob("*.jsonl"))
    rows = [json.loads(line) for path in outputs for line in path.read_text().splitlines()]
    assert pages[120:] == sorted((row["text"] for row in rows), key=pages.index)
    found = volume / "old/latest/artifacts/fill-bloom.seen.bloom"
    assert Path(fill(tmp_path / "whole", pages[:120])).read_bytes() == found.read_bytes()


def run_crawls(folder: Path, fault: str) -> int:
    """Run an attempt of each crawl, possibly with a kill at a step; return the exit code."""
    words = ["run", "crawls.yaml", "--engine", "inline", "--no-supervise"]
    armed = {"STRANDLINE_FAULT": fault} if fault else {}
    environment = psutil.Process().environ() | armed
    command = [sys.executable, "-m", "strandline", *words]
    return subprocess.run(command, cwd=folder, env=environment, check=False).returncode
