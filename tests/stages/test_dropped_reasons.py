"""Stages that drop rows say why in a column instead, where that is asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stage_runs import Rows, StageRun
from strandline.stages.dedup.drop_duplicates import Normalisation, digest_values
from strandline.stages.dedup.key_lists import write_key_list
from strandline.stages.dedup.seen.filter_file import write_filter

PROSE = "The keeper climbed the stairs of the lighthouse with a can of oil. He trimmed the wick. "
ROWS: Rows = [
    {"key": "a", "url": "https://a.org/page", "text": PROSE * 3, "content": f"<p>{PROSE * 3}</p>"},
    {"key": "b", "url": "https://spam.org/x", "text": PROSE * 3, "content": ""},
    {"key": "c", "url": "no address", "text": "", "content": f"<p>{PROSE * 4}</p>"},
    {"key": "d", "url": "https://b.org/", "text": "Der Wärter stieg auf den Turm, jeden Abend.",
     "content": "<p></p>"},
]  # fmt: skip
for row, level in zip(ROWS, (0.5, 0.01, None, 0.5), strict=True):
    row["brightness"] = level


def list_keys(folder: Path) -> dict[str, Any]:
    path = str(folder / "listed.parquet")
    write_key_list(path, {"b": "a", "d": "a"})
    return {"path": path}


def list_runs(folder: Path) -> dict[str, Any]:
    path = str(folder / "runs.parquet")
    names = [f"b#{at:08d}" for at in range(4)]
    write_key_list(path, dict.fromkeys(names, "a"))
    return {"path": path, "minWords": 10}


def make_filter(folder: Path) -> dict[str, Any]:
    path = str(folder / "seen.bloom")
    digest = digest_values([PROSE * 3], Normalisation.NONE)
    values = np.frombuffer(digest[:8], np.uint64)
    write_filter(Path(path), values, 0.01, ("text",), Normalisation.NONE)
    return {"paths": [path]}


def write_benchmark(folder: Path) -> dict[str, Any]:
    (folder / "test.txt").write_text(PROSE)
    return {"benchmarks": [str(folder / "test.txt")], "n": 5}


def take(**values: Any) -> Callable[[Path], dict[str, Any]]:
    return lambda _folder: values


STAGES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "filter-urls": take(domains={"items": ["spam.org"]}),
    "extract-text": take(column="content"),
    "identify-language": take(languages=["en"]),
    "drop-duplicates": take(columns=["text"]),
    "drop-listed": list_keys,
    "drop-listed-sentences": list_runs,
    "drop-contaminated": write_benchmark,
    "drop-seen": make_filter,
    "filter-text-quality": take(minWords=20),
    "gopher-quality": take(minDocWords=20),
    "normalise-text": take(),
    "repair-text": take(),
    "keep-rows": take(where="len(text) > 50"),
    "filter-video": take(bounds={"brightness": [0.05, None]}),
    "filter-code-quality": take(column="text", minLines=1, maxMeanLineLength=200),
    "keep-documented": take(column="text", minWords=12),
    "drop-generated-code": take(),
}


@pytest.mark.parametrize("use", STAGES)
def test_rows_are_marked_that_would_be_dropped(use: str, tmp_path: Path) -> None:
    values = STAGES[use](tmp_path)
    dropping, marking = StageRun(use, **values), StageRun(use, **values, reasonColumn="why")
    left, marked = dropping.rows(ROWS), marking.rows(ROWS)
    assert dropping.counters == marking.counters
    assert [row["key"] for row in marked] == [row["key"] for row in ROWS]
    kept = [row for row in marked if row["why"] is None]
    assert [row | {"why": None} for row in left] == kept
    reasons = [row["why"] for row in marked if row["why"]]
    assert reasons
    for reason in set(reasons):
        assert marking.counters[f"dropped: {reason}"] == reasons.count(reason)


@pytest.mark.parametrize("marked", ["abcd", "bc", "ad", "d"])
@pytest.mark.parametrize("use", STAGES)
def test_what_is_marked_already_passes_as_if_it_were_not_there(
    use: str, marked: str, tmp_path: Path
) -> None:
    rows = [row | {"why": "earlier" if row["key"] in marked else None} for row in ROWS]
    values = STAGES[use](tmp_path) | {"reasonColumn": "why"}
    stage, other = StageRun(use, **values), StageRun(use, **values)
    passed = stage.rows(rows)
    assert [row["key"] for row in rows] == [row["key"] for row in passed]
    for before, after in zip(rows, passed, strict=True):
        if before["why"]:
            assert after == {name: before.get(name) for name in after}
    alone = other.rows([row for row in rows if not row["why"]]) if len(marked) < len(rows) else []
    assert alone == [row for row in passed if row["key"] not in marked]
    assert other.counters == stage.counters


@pytest.mark.parametrize("use", STAGES)
def test_the_name_of_the_stage_stands_beside_its_reasons(use: str, tmp_path: Path) -> None:
    values = STAGES[use](tmp_path)
    stage = StageRun(use, **values, reasonColumn="why", stageColumn="by")
    stage.stage.planned_name = "mine"
    rows = [row | {"why": None, "by": None} for row in ROWS]
    rows[0] |= {"why": "earlier", "by": "another"}
    passed = stage.rows(rows)
    assert "another" == passed[0]["by"]
    assert [row["why"] and "mine" for row in passed[1:]] == [row["by"] for row in passed[1:]]
    assert "stage_column" in stage.stage.added_params  # runs that were begun go on


@pytest.mark.parametrize("reason", [None, "by"])
def test_the_name_of_the_stage_wants_a_reason_beside_it(reason: str | None) -> None:
    with pytest.raises(ValueError, match="wants a `reasonColumn` beside it"):
        StageRun("normalise-text", reasonColumn=reason, stageColumn="by")


def test_a_copy_of_what_is_gone_already_is_the_first() -> None:
    rows = [{"text": "same", "why": "earlier"}, {"text": "same", "why": None}]
    stage = StageRun("drop-duplicates", columns=["text"], reasonColumn="why")
    assert [row["why"] for row in stage.rows(rows)] == ["earlier", None]
