"""Kept and dropped rows of one run: each row is written once, with the first drop reason."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pipeline_runs import Passes
from strandline.plan.receipt import DROPPED
from strandline.run.attempt.outcome import AttemptResult
from strandline_api.outcome.exit_codes import ExitCode

PROSE = "The keeper of the lighthouse climbed the stairs and he trimmed the wick with care. "
GERMAN = "Der Wärter stieg jeden Abend auf den Turm und zündete die Lampe für die Schiffe an. "
MARK = {"reasonColumn": "why", "stageColumn": "by"}
DROPPING: tuple[dict[str, Any], ...] = (
    {"use": "filter-urls", "with": {"domains": {"items": ["spam.example.com"]}}},
    {"name": "short", "use": "gopher-quality", "with": {"minDocWords": 10, "minStopWords": 0}},
    {"use": "identify-language", "with": {"languages": ["en"]}},
)
# The drop reason of each row of a file. Two stages would drop the second and the third row.
WHY = (None, "listed domain", "listed domain", "gopher_short_doc", "other language", None)
STAGES = {
    "listed domain": "filter-urls",
    "gopher_short_doc": "short",
    "other language": "identify-language",
}
ROWS = (
    ("https://a.example.com/1", PROSE * 2),
    ("https://spam.example.com/2", "short"),
    ("https://spam.example.com/3", GERMAN * 2),
    ("https://a.example.com/4", "kurz"),
    ("https://a.example.com/5", GERMAN * 2),
    ("https://a.example.com/6", PROSE * 3),
)
SINKS: dict[str, dict[str, Any]] = {
    "jsonl": {"use": "jsonl"},
    "parquet-partitions": {
        "use": "parquet-partitions",
        "with": {"by": "[^/]+$", "member": "why"},
    },
}


@pytest.fixture
def passes(tmp_path: Path) -> Passes:
    return Passes(tmp_path)


def write(passes: Passes, *names: str) -> None:
    folder = passes.folder / "in"
    folder.mkdir(exist_ok=True)
    for name in names:
        lines = [
            json.dumps({"id": f"{name}{at}", "url": url, "text": text})
            for at, (url, text) in enumerate(ROWS)
        ]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))


def mark(stage: dict[str, Any]) -> dict[str, Any]:
    return stage | {"with": stage["with"] | MARK}


def run(
    passes: Passes, name: str, sink: str, *stages: dict[str, Any], **source: Any
) -> AttemptResult:
    paths = {"paths": [f"{passes.folder}/in/*.jsonl"], "onRemoved": "Delete"} | source
    result = passes.run(
        name,
        source={"use": "jsonl-files", "with": paths},
        stages=[{"use": "read-jsonl"}, *stages[:-1], stages[-1] | {"group": 100_000}],
        sink=SINKS[sink],
    )
    assert ExitCode.COMPLETE == result.code
    assert passes.find_problems(name) == []
    return result


def count(result: AttemptResult) -> Counter[str]:
    """Count the dropped rows by reason."""
    found: Counter[str] = Counter()
    for stage in result.counts.values():
        for name, number in stage.counters.items():
            if name.startswith(DROPPED):
                found[name.removeprefix(DROPPED)] += number
    return found


def list_groups(passes: Passes, name: str) -> list[tuple[str | None, list[str]]]:
    """Return the drop reason and the rows of each row group."""
    groups = []
    for path in sorted(passes.find_output(name).rglob("*.parquet")):
        file = pq.ParquetFile(path)
        for at in range(file.num_row_groups):
            table = file.read_row_group(at)
            (reason,) = set(table["why"].to_pylist())
            groups.append((reason, table["id"].to_pylist()))
    return groups


def expect(*names: str) -> Counter[tuple[str, str | None]]:
    return Counter((f"{name}{at}", why) for name in names for at, why in enumerate(WHY))


def test_a_chain_of_filters_outputs_each_row_once_with_its_first_reason(passes: Passes) -> None:
    write(passes, "a", "b", "c")
    chain = [mark(stage) for stage in DROPPING]
    begun = run(passes, "marked", "parquet-partitions", *chain, limit=1)
    rest = run(passes, "marked", "parquet-partitions", *chain)
    assert (1, 2) == (begun.standing.finished, rest.standing.finished)
    groups = list_groups(passes, "marked")
    assert expect("a", "b", "c") == Counter((row, why) for why, rows in groups for row in rows)
    assert 3 * len(set(WHY)) == len(groups)
    assert passes.read_rows("marked", "by") == Counter(3 * [why and STAGES[why] for why in WHY])
    dropping = run(passes, "kept", "jsonl", *DROPPING)
    kept = (row for why, rows in groups if why is None for row in rows)
    assert Counter(kept) == passes.read_rows("kept", "id")
    marking = count(begun) + count(rest)
    assert marking == count(dropping)
    assert marking == Counter(why for _, why in expect("a", "b", "c") if why)
