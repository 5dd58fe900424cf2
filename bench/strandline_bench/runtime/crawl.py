"""Measures the cost of a day's crawl relative to the existing corpus: filters and deduplication.

Each pass is one attempt in this process, as in the guide on duplicates, with small partitions read
together as the guide recommends. Seconds are CPU time, first over everything and then with one
additional file in a hundred.
"""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from strandline import ExitCode
from strandline.ledger.access.lease import OnChange
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.manifest.manifest import read_manifest
from strandline_bench.ground.scale import Scale
from strandline_bench.ground.table import Row, bound, format_number
from strandline_bench.text.documents import list_documents

FILES, PARTITIONS, DAYS = 100, 8, 3
COPIED = 20  # a day has one copied text per this many texts
TOGETHER = 64 << 20  # bytes of partitions read together, with each file opened once
MOST = 5.0  # percent of the CPU time for the whole corpus
Item = dict[str, Any]

FILTERS: list[Item] = [
    {"use": "read-jsonl"},
    {"use": "normalise-text"},
    {"use": "gopher-repetition"},
    {"use": "gopher-quality", "with": {"minDocWords": 5, "minStopWords": 0}},
    {"use": "c4-quality"},
]


def measure_crawl(scale: Scale) -> list[Row]:
    """Run all passes over a corpus, again without new files, and with an additional day's crawl."""
    count = scale.pick(60_000, 400)
    folder = scale.folder / "crawl"
    texts = list_documents(count + DAYS * count // FILES)
    random.Random(4).shuffle(texts)  # noqa: S311 - samples, not secrets
    size = count // FILES
    for file in range(FILES):
        _write(folder, file, texts[file * size : (file + 1) * size])
    # Load modules and word lists first, so that no measured run pays for them.
    _run(folder, "first", [f"{folder}/in/000.jsonl"])
    paths = [f"{folder}/in/*"]
    whole = sum(_run(folder, "corpus", paths).values())
    nothing = sum(_run(folder, "corpus", paths).values())
    days = []
    for file in range(FILES, FILES + DAYS):
        # Add copies of existing texts, so that the list of duplicates changes.
        copies = texts[file::COPIED][: size // COPIED]
        _write(folder, file, texts[file * size : (file + 1) * size] + copies)
        days.append(_run(folder, "corpus", paths))
    what = f"{count:,} documents in {FILES} files, five passes"
    day = f"one file more, median of {DAYS} days"
    shares = {name: 100 * median(each[name] for each in days) / whole for name in days[0]}
    total = 100 * median(sum(each.values()) for each in days) / whole
    return [
        Row(f"{what}: the whole", format_number(whole, "s")),
        Row("nothing new, of the whole", format_number(100 * nothing / whole, "%")),
        bound(f"{day}, of the whole", total, MOST, "%"),
        *(Row(f"of it {name}", format_number(share, "%")) for name, share in shares.items()),
    ]


def _list_passes(paths: list[str]) -> dict[str, Item]:
    """Return the specs of the passes in order."""
    buckets: Item = {"pipeline": "signatures", "files": "**/*.parquet"}
    links: Item = {"pipeline": "links", "files": "**/*.parquet"}
    pages: Item = {"pipeline": "pages", "files": "**/*.parquet"}
    gone: Item = {"pipeline": "duplicates", "files": "**/*.parquet"}
    found: Item = {"use": "parquet", "with": {"writeEmpty": True}}
    row_groups: Item = {"use": "parquet-row-groups", "with": {"paths": [pages]}}
    return {
        "pages": {
            "source": {"use": "jsonl-files", "with": {"paths": paths}},
            "stages": FILTERS,
            "sink": {"use": "parquet"},
        },
        "signatures": {
            "source": row_groups,
            "stages": [
                {"use": "read-parquet", "with": {"columns": ["key", "text"]}},
                {"use": "sign-texts"},
            ],
            "sink": {"use": "shuffle", "with": {"partitions": PARTITIONS}},
        },
        "links": {
            "source": {
                "use": "shuffle-partitions",
                "with": {"paths": [buckets], "targetBytes": TOGETHER},
            },
            "stages": [{"use": "read-shuffle"}, {"use": "link-duplicates"}],
            "sink": found,
        },
        "duplicates": {
            "source": {"use": "files", "with": {"paths": [links], "buckets": 1}},
            "stages": [{"use": "cluster-duplicates"}],
            "sink": found,
        },
        "unique-pages": {
            "source": row_groups,
            "stages": [{"use": "read-parquet"}, {"use": "drop-listed", "with": {"path": gone}}],
            "sink": {"use": "jsonl"},
        },
    }


def _run(folder: Path, volume: str, paths: list[str]) -> dict[str, float]:
    """Run all passes, and return the CPU seconds of each."""
    took: dict[str, float] = {}
    for name, spec in _list_passes(paths).items():
        head = {"apiVersion": "strandline.dev/v1alpha1", "kind": "CurationPipeline"}
        file = folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump({**head, "metadata": {"name": name}, "spec": spec}))
        begun = time.process_time()
        plan = read_manifest(file, volume=folder / volume).plan
        config = AttemptConfig(plan, folder / volume, engine="inline", on_change=OnChange.REDO)
        result = run_attempt(config)
        took[name] = time.process_time() - begun
        if result.code is not ExitCode.COMPLETE:
            raise RuntimeError(f"{name}: {result.message}")
    return took


def _write(folder: Path, file: int, texts: list[str]) -> None:
    (folder / "in").mkdir(parents=True, exist_ok=True)
    rows = [{"key": f"{file:03}#{row:05}", "text": text} for row, text in enumerate(texts)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / f"in/{file:03}.jsonl").write_text(lines)
