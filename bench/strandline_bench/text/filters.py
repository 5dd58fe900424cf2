"""Measures document filters on one core, compared with datatrove's on the same documents.

Both get the same words: by Strandline's rules, and by spaCy's, datatrove's default.
"""

from __future__ import annotations

import time
from statistics import median

import pyarrow as pa

from strandline.plan.packages import list_missing
from strandline.plan.stages.registry import find_stage
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_bench.engines.rivals.index import find_rival
from strandline_bench.ground.scale import Scale
from strandline_bench.ground.table import Row, format_number, reach
from strandline_bench.text.agreement import FILTERS, IN_A_ROW, Judge, add_chain, load_theirs
from strandline_bench.text.documents import list_documents
from strandline_packs.text.filters.splitting import PACKAGES, Splitting, load_splitter

UNIT = "documents/s"


def measure_filters(scale: Scale) -> list[Row]:
    """Run each filter, and all four in sequence, with both products in turns."""
    texts = list_documents(scale.pick(400, 20))
    has_rival = find_rival("datatrove").is_installed()
    rows: list[Row] = []
    for splitting in (Splitting.RULES, Splitting.SPACY):
        if list_missing(PACKAGES[splitting]):
            continue
        theirs = {}
        if has_rival:
            splitter = load_splitter(splitting)
            theirs = add_chain(
                {
                    use: load_theirs(use, None if splitting is Splitting.SPACY else splitter)
                    for use in FILTERS
                }
            )
        for use in (*FILTERS, IN_A_ROW):
            what = f"{use}, words by {splitting}"
            rows += _compare(what, _load_stages(use, splitting), theirs.get(use), texts, scale)
    return rows


def _load_stages(use: str, splitting: Splitting) -> list[Stage]:
    stages = []
    for name in [use] if use in FILTERS else FILTERS:
        stage = find_stage(name)(splitting=splitting)
        stage.setup()
        stages.append(stage)
    return stages


def _compare(
    what: str, stages: list[Stage], theirs: Judge | None, texts: list[str], scale: Scale
) -> list[Row]:
    ours_seconds, their_seconds = [], []
    for _ in range(scale.pick(3, 1)):
        ours_seconds.append(_time_stages(stages, texts))
        if theirs is not None:
            their_seconds.append(_time_judge(theirs, texts))
    ours = len(texts) / median(ours_seconds)
    if not their_seconds:
        return [Row(what, format_number(ours, UNIT))]
    other = len(texts) / median(their_seconds)
    return [
        Row(what, format_number(ours, UNIT)),
        Row(f"{what}: datatrove", format_number(other, UNIT)),
        reach(f"{what}: times as fast", ours / other, 1, "×"),
    ]


def _time_stages(stages: list[Stage], texts: list[str]) -> float:
    task: Task | None = Task(pa.table({"text": texts}))
    begun = time.process_time()
    for stage in stages:
        if task is not None:
            answer = stage.process(task)
            assert answer is None or isinstance(answer, Task)
            task = answer
    return time.process_time() - begun


def _time_judge(judge: Judge, texts: list[str]) -> float:
    begun = time.process_time()
    for text in texts:
        judge(text)
    return time.process_time() - begun
