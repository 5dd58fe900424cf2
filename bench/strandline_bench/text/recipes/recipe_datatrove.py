"""Runs FineWeb's recipe with datatrove on its local executor.

    python -m strandline_bench.text.recipes.recipe_datatrove CRAWL OUT
        [--part pages|minhash] [--tasks N] [--workers N]

Strandline's stages select pages, addresses, and languages, and Strandline's rules split words:
datatrove would download a list and a model, and splits words differently. The rest is datatrove's:
extraction, filters, removal of personal addresses, and the four steps of MinHash.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import xxhash
from datatrove.data import Document
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.base import PipelineStep
from datatrove.pipeline.dedup import (
    MinhashDedupBuckets,
    MinhashDedupCluster,
    MinhashDedupFilter,
    MinhashDedupSignature,
)
from datatrove.pipeline.dedup.minhash import MinhashConfig
from datatrove.pipeline.extractors import Trafilatura
from datatrove.pipeline.filters import (
    C4QualityFilter,
    FineWebQualityFilter,
    GopherQualityFilter,
    GopherRepetitionFilter,
)
from datatrove.pipeline.formatters import PIIFormatter
from datatrove.pipeline.readers import ParquetReader
from datatrove.pipeline.writers import ParquetWriter

from strandline.plan.stages.registry import find_stage
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_bench.text.agreement import inject_words
from strandline_packs.text.filters.splitting import RuleSplitter
from strandline_packs.web.page_charsets import decode_page

PAGES, KEPT = "pages", "kept"
BUCKETS, ROWS, WORDS = 14, 8, 5
SECONDS = 60.0  # timeout per page, so long that a busy machine drops no page
URL_RULES = {
    "words": {"items": ["casino", "poker"]},
    "softWords": {"items": ["free", "bonus", "spins", "win"]},
}
LANGUAGES = {"languages": ["en"], "minProbability": 0.65}
Documents = Iterator[Document]


class CrawlPages(PipelineStep):  # type: ignore[misc]  # it comes without types
    """Yields the pages with a wanted address from one task's share of the files."""

    def __init__(self, crawl: str) -> None:
        super().__init__()
        self._crawl = crawl

    def run(self, data: Any, rank: int = 0, world_size: int = 1) -> Documents:  # noqa: ANN401, ARG002 - its interface
        """Yield the pages with decoded bytes."""
        source = load_stage("warc-files", paths=[f"{self._crawl}/*.warc.gz"])
        reading, filtering = load_stage("read-warc"), load_stage("filter-urls", **URL_RULES)
        files = sorted(source.list_sources(), key=lambda listed: listed.key)  # type: ignore[attr-defined]
        for listed in files[rank::world_size]:
            for task in reading.process(Task(listed.data)):  # type: ignore[union-attr]
                wanted = filtering.process(task)  # type: ignore[arg-type]
                for row in wanted.table.to_pylist() if isinstance(wanted, Task) else ():
                    text = decode_page(row["content"], row["charset"] or "")
                    yield Document(text=text, id=row["key"], metadata={"url": row["url"]})


class WantedLanguages(PipelineStep):  # type: ignore[misc]  # the same
    """Yields only documents in wanted languages."""

    def run(self, data: Documents, rank: int = 0, world_size: int = 1) -> Documents:  # noqa: ARG002 - its interface
        """Yield the documents for which Strandline's stage finds a wanted language."""
        stage = load_stage("identify-language", **LANGUAGES)
        for document in data:
            if stage.process(Task(pa.table({"text": [document.text]}))) is not None:
                yield document


def load_stage(use: str, **values: Any) -> Stage:  # noqa: ANN401 - parameters
    """Return a Strandline stage after its setup."""
    stage_class = find_stage(use)
    stage = stage_class(stage_class.Params.model_validate(values))
    stage.setup()
    return stage


def list_executors(crawl: str, folder: Path, tasks: int, workers: int) -> list[Any]:
    """Return the executors of the recipe in order."""
    words = inject_words(RuleSplitter())
    config = MinhashConfig(n_grams=WORDS, num_buckets=BUCKETS, hashes_per_bucket=ROWS)
    pages, signatures, buckets, remove = (
        str(folder / name) for name in (PAGES, "signatures", "buckets", "remove")
    )
    clean = [
        CrawlPages(crawl),
        Trafilatura(favour_precision=True, timeout=SECONDS, deduplicate=False),
        WantedLanguages(),
        GopherRepetitionFilter(language=words),
        GopherQualityFilter(language=words),
        C4QualityFilter(filter_no_terminal_punct=False, language=words),
        FineWebQualityFilter(language=words),
        PIIFormatter(),
        ParquetWriter(pages),
    ]
    signing = MinhashDedupSignature(signatures, config, language=words)
    signing._hash_func = _hash_run  # noqa: SLF001 - else no step of it runs with xxhash 4
    sign = [ParquetReader(pages), signing]
    compare = [MinhashDedupBuckets(signatures, buckets, config=config)]
    cluster = [MinhashDedupCluster(buckets, remove, config=config)]
    drop = [ParquetReader(pages), MinhashDedupFilter(remove), ParquetWriter(str(folder / KEPT))]
    steps = [(clean, tasks), (sign, tasks), (compare, BUCKETS), (cluster, 1), (drop, tasks)]
    return [
        LocalPipelineExecutor(
            pipeline,
            tasks=number,
            workers=min(workers, number),
            logging_dir=str(folder / f"logs-{at}"),
            start_method="fork",
        )
        for at, (pipeline, number) in enumerate(steps)
    ]


def _hash_run(text: str) -> int:
    """Hash a text as datatrove's function does with the xxhash release it was written for."""
    return xxhash.xxh64_intdigest(text.encode())


def main() -> None:
    """Run the recipe over a crawl."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("crawl")
    parser.add_argument("out", type=Path)
    parser.add_argument("--part", choices=("pages", "minhash"))
    parser.add_argument("--tasks", type=int, default=4)
    parser.add_argument("--workers", type=int, default=1)
    asked = parser.parse_args()
    executors = list_executors(asked.crawl, asked.out, asked.tasks, asked.workers)
    parts = {"pages": executors[:1], "minhash": executors[1:], None: executors}
    for executor in parts[asked.part]:
        executor.run()


if __name__ == "__main__":
    main()
