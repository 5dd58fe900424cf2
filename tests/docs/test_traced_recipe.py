"""Traces of rows through FineWeb's five passes equal a recomputation without Strandline's stages.

The recomputation knows how the crawl was generated, extracts texts by the third-party libraries,
and reads all output files.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest
from make_crawl import FILE_PAGES, CrawledPage, format_record, list_pages, pack

from command_server import execute_command, execute_strandline
from strandline.cli.app.targets import list_targets, order_targets
from strandline.run.manifest.manifest import read_manifest
from strandline.run.trace.steps import PipelineTrace, RowName, TracedRow
from strandline.run.trace.tracer import trace_rows

pytestmark = pytest.mark.first(reason="runs FineWeb's recipe and its sources a second time")

ROOT = Path(__file__).parents[2]
RECIPE = "pipelines/examples/fineweb.yaml"
RANGE = 30_000  # `rangeBytes` of the recipe
PASSES = ("fineweb-pages", "fineweb-signatures", "fineweb-links", "fineweb-duplicates", "fineweb")
KEPT = {"prose", "copy", "reprint", "contact", "unclosed"}
UNREAD = {"missing", "image"}  # another status, and another content type
JUDGED = ("gopher-repetition", "gopher-quality", "c4-quality", "fineweb-quality")
ADDED = {"extract-text": "text", "identify-language": "language language_probability"}


class End(NamedTuple):
    """The stage that drops a page, the reason, the measured value, and the limit."""

    stage: str
    reason: str
    value: float | None = None
    limit: float | None = None


class Recomputed:
    """The expected history of each page of a generated crawl.

    Args:
        number: number of pages.
        data: folder of the pipelines' outputs.
    """

    def __init__(self, number: int, data: Path) -> None:
        self.pages: dict[str, CrawledPage] = {}
        pages = list_pages(number)
        for first in range(0, number, FILE_PAGES):
            offset, name = 0, f"strandline-data/crawl/crawl-{first // FILE_PAGES:05d}.warc.gz"
            for page in pages[first : first + FILE_PAGES]:
                self.pages[f"{name}#{offset}"] = page
                offset += len(pack(format_page(page)))
        truncated = list(self.pages)[min(number, FILE_PAGES) - 1]
        self.read = [
            key for key, page in self.pages.items() if page.kind not in UNREAD and key != truncated
        ]
        self.ends = {key: find_end(self.pages[key]) for key in self.read}
        numbers = {page.url: at for at, page in enumerate(pages)}
        clusters: dict[int, list[str]] = {}
        for key in self.read:
            page = self.pages[key]
            if self.ends[key] is None:
                of = numbers[page.url] if page.of is None else page.of
                clusters.setdefault(of, []).append(key)
        self.stays = {key: min(keys) for keys in clusters.values() for key in keys}
        self.places = {each: dict(list_places(data / each / "output")) for each in PASSES}
        tables = map(pq.read_table, sorted((data / PASSES[1] / "output").rglob("*.parquet")))
        rows = [row for table in tables for row in table.to_pylist()]
        sizes = Counter(row["bucket"] for row in rows)
        self.linked = {row["key"] for row in rows if sizes[row["bucket"]] > 1}

    def list_outputs(self, name: str, key: str) -> list[tuple[str, int]]:
        return sorted(self.places[name].get(key, []))


def format_page(page: CrawledPage) -> bytes:
    length = f"\r\nContent-Length: {len(page.body)}\r\n\r\n"
    return format_record(page.url, (page.head + length).encode() + page.body)


def list_places(folder: Path) -> Iterator[tuple[str, list[tuple[str, int]]]]:
    """Yield each key in a folder of Parquet files with all its rows."""
    found: dict[str, list[tuple[str, int]]] = {}
    for path in folder.rglob("*.parquet"):
        for row, key in enumerate(pq.read_table(path, columns=["key"])["key"].to_pylist()):
            found.setdefault(key, []).append((str(path.relative_to(folder)), row))
    yield from found.items()


@cache
def load_identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # noqa: PLC0415 - an extra's

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def find_end(page: CrawledPage) -> End | None:
    """Return the stage that must drop a page that was read, or None."""
    from trafilatura import extract  # noqa: PLC0415 - an extra's
    from trafilatura.deduplication import LRU_TEST  # noqa: PLC0415 - the same

    if "casino" in page.url:
        return End("filter-urls", "listed word in the URL")
    LRU_TEST.clear()
    text = (extract(page.body.decode(), favor_precision=True, include_comments=False) or "").strip()
    language, probability = load_identifier().classify(text)
    if probability < 0.65:
        return End("identify-language", "uncertain language", probability, 0.65)
    if language != "en":
        return End("identify-language", "other language", 1, 0)
    lines = re.split(r"\n+", text)
    repeated = (len(lines) - len(set(lines))) / len(lines)
    if repeated > 0.3:
        return End("gopher-repetition", "dup_line_frac", repeated, 0.3)
    words = len(re.findall(r"\w+", text))
    if words < 50:
        return End("gopher-quality", "gopher_short_doc", words, 50)
    return End("c4-quality", "curly_bracket") if "{" in text else None


def list_first_steps(page: CrawledPage, end: End | None) -> list[dict[str, Any]]:
    """Return the steps of the first pass."""
    stages = ["read-warc", "filter-urls", *ADDED, *JUDGED, "redact-pii"]
    steps: list[dict[str, Any]] = []
    for stage in stages:
        step: dict[str, Any] = {
            "stage": stage,
            "decision": "kept",
            "reason": "",
            "added": (),
            "changed": (),
        }
        if end is not None and end.stage == stage:
            return [*steps, {**step, "decision": "dropped", "reason": end.reason}]
        if stage == "read-warc":
            step["decision"] = "read"
        if stage in ADDED:
            step |= {"decision": "changed", "added": tuple(ADDED[stage].split())}
        if stage == "redact-pii" and page.kind == "contact":
            step |= {"decision": "changed", "changed": ("text",)}
        steps.append(step)
    return steps


def show_steps(trace: PipelineTrace) -> list[dict[str, Any]]:
    names = ("stage", "decision", "reason", "added", "changed")
    return [{name: getattr(step, name) for name in names} for step in trace.steps]


def sum_rows(trace: PipelineTrace) -> Mapping[str, tuple[int, int]]:
    """Return the rows before and after each stage."""
    sums: dict[str, tuple[int, int]] = {}
    for step in trace.steps:
        rows, becomes = sums.get(step.stage, (0, 0))
        sums[step.stage] = rows + step.rows, becomes + step.becomes
    return sums


def check_first(key: str, trace: PipelineTrace, want: Recomputed) -> None:
    end = want.ends[key]
    assert list_first_steps(want.pages[key], end) == show_steps(trace), key
    (source,) = trace.sources
    file, _, offset = key.partition("#")
    start = int(offset) // RANGE * RANGE
    assert f"{file}#bytes={start}-{start + RANGE - 1}" == source.key
    assert ("finished", 1, start) == (source.state, source.attempt, source.payload["start"])
    rule = trace.steps[-1].rule
    if end is not None and end.value is not None:
        assert rule is not None
        assert rule.value == pytest.approx(end.value)
        assert end.limit == rule.limit, key
    else:
        assert rule is None


def check_row(key: str, traces: list[PipelineTrace], want: Recomputed) -> None:
    assert list(PASSES) == [each.pipeline for each in traces]
    first, signatures, links, duplicates, last = traces
    check_first(key, first, want)
    for trace in traces:
        outputs = sorted((each.file, each.row) for each in trace.outputs)
        assert want.list_outputs(trace.pipeline, key) == outputs, (key, trace.pipeline)
        assert ("0001/p0001" if outputs else "") == trace.publication
    if want.ends[key] is not None:
        assert not any(each.is_found for each in traces[1:])
        return
    assert {"read-parquet": (1, 1), "sign-texts": (1, 15)} == sum_rows(signatures)
    becomes = len(want.list_outputs("fineweb-links", key))
    assert {"read-shuffle": (15, 15), "link-duplicates": (15, becomes)} == sum_rows(links)
    assert (key in want.linked) == (becomes > 0)
    stays = want.stays[key]
    is_dropped = stays != key
    assert [stays] * is_dropped == [each.retained for each in duplicates.steps]
    assert ["read-parquet", "drop-listed"] == [each.stage for each in last.steps]
    step = last.steps[-1]
    want_step = ("dropped", "listed", stays) if is_dropped else ("kept", "", None)
    assert want_step == (step.decision, step.reason, step.retained)


def run_recipe(folder: Path, number: int) -> Recomputed:
    shutil.copytree(ROOT / "pipelines/examples", folder / "pipelines/examples")
    script = [sys.executable, "pipelines/examples/make_crawl.py", "strandline-data/crawl"]
    assert 0 == execute_command([*script, "--pages", str(number)], cwd=folder).returncode
    done = execute_strandline("run", RECIPE, "--engine", "inline", cwd=folder)
    assert 0 == done.returncode, done.stderr
    return Recomputed(number, folder / "strandline-data/default")


def trace_all(keys: list[str]) -> list[list[PipelineTrace]]:
    volume = Path("strandline-data")
    targets = order_targets(list_targets((Path(RECIPE),), ()), None)
    others = [target.pipeline for target in targets]
    plans = [
        read_manifest(target.file, (), volume=volume, others=others).plan for target in targets
    ]
    return trace_rows(plans, volume, [TracedRow(RowName("key", {key: None})) for key in keys])


@pytest.mark.parametrize(
    ("pages", "rows"),
    [(60, 30), pytest.param(1200, 1000, marks=pytest.mark.full)],  # the second takes minutes
)
def test_traces_of_drawn_rows_equal_a_recomputation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pages: int, rows: int
) -> None:
    want = run_recipe(tmp_path, pages)
    monkeypatch.chdir(tmp_path)
    keys = random.Random(55).sample(want.read, rows)
    assert {want.ends[key] is None for key in keys} == {True, False}
    assert any(want.stays[key] != key for key in keys if key in want.stays)
    for key, traces in zip(keys, trace_all(keys), strict=True):
        check_row(key, traces, want)
        assert not [note for each in traces for note in each.notes if "now" in note], key
    done = execute_strandline("trace", RECIPE, "--row", keys[0], "--json", cwd=tmp_path)
    assert 0 == done.returncode, done.stderr
    shown = json.loads(done.stdout)["pipelines"][0]["steps"]
    end = want.ends[keys[0]]
    assert ("redact-pii" if end is None else end.stage) == shown[-1]["stage"]
