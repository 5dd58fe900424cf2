"""Whole commands of products beside ours: JSON Lines, a filter in Python, Parquet.

Everyone's start is on the clock, and so are our ledger and what it makes durable. All must keep the
same rows. Turns alternate, and the median is told.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from hashlib import blake2b
from importlib import metadata, util
from pathlib import Path
from statistics import median

import pyarrow.parquet as pq
import yaml

from strandline_bench.engines.rivals.index import HOW_TO_INSTALL
from strandline_bench.ground.folders import join_python_path
from strandline_bench.ground.scale import Scale
from strandline_bench.ground.table import Row, format_number
from strandline_bench.products.programs import PROGRAMS
from strandline_bench.text.documents import generate_documents

_FILES, _MIBS = 20, 1e6
# Ours without a word, on Ray, and in one process.
_OURS: dict[str, Sequence[str]] = {
    "strandline": (),
    "strandline, on Ray": ("--engine", "ray"),
    "strandline, inline": ("--engine", "inline"),
}


def measure_products(scale: Scale) -> list[Row]:
    """Run every product over the same documents, few and many of them."""
    rows = []
    for count in (scale.pick(10_000, 500), *([] if scale.is_quick else [200_000, 1_000_000])):
        folder = scale.folder / f"products-{count}"
        size = _write(folder / "in", count)
        turns = scale.turns or scale.pick(3 if count < 1_000_000 else 1, 1)
        rows += _compare(folder, f"{count:,} documents of {size / _MIBS:,.0f} MB", turns)
        shutil.rmtree(folder)
    return rows


def _compare(folder: Path, what: str, turns: int) -> list[Row]:
    missing = [name for name in PROGRAMS if name != "pool" and util.find_spec(name) is None]
    names = [*_OURS, *(name for name in PROGRAMS if name not in missing)]
    seconds: dict[str, list[float]] = {name: [] for name in names}
    kept = set()
    for _ in range(turns):
        for name in names:
            target = folder / "out"
            target.mkdir()
            begun = time.perf_counter()
            _run(_write_command(name, folder, target), folder)
            seconds[name].append(time.perf_counter() - begun)
            kept.add(_digest(target))
            shutil.rmtree(target)
    if len(kept) != 1:
        raise RuntimeError("the products did not keep the same rows")
    took = {name: median(each) for name, each in seconds.items()}
    rows = [
        Row(
            f"{what}: {_name(name)}",
            f"{format_number(each, 's')}, {each / took['pool']:.2f} × the pool",
        )
        for name, each in sorted(took.items(), key=lambda item: item[1])
    ]
    return [*rows, *(Row(f"{what}: {name}", HOW_TO_INSTALL) for name in missing)]


def _name(name: str) -> str:
    if name == "pool":
        return "a pool of processes, by hand"
    package = name.partition(",")[0]
    if package == "strandline":
        return f"ours{name.removeprefix(package)}"
    return f"{name} {metadata.version(package)}"


def _write_command(name: str, folder: Path, target: Path) -> list[str]:
    if name not in _OURS:
        words = ["-m", "strandline_bench.products.programs", name, str(folder / "in"), str(target)]
        return [sys.executable, *words]
    manifest = {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": "texts"},
        "spec": {
            "source": {"use": "files", "with": {"paths": [f"{folder}/in/*.jsonl"]}},
            "stages": [
                {"use": "read-jsonl"},
                {"use": "strandline_bench.products.programs:KeepTexts"},
            ],
            "sink": {"use": "parquet", "with": {"path": str(target / "kept")}},
        },
    }
    path = folder / "texts.yaml"
    path.write_text(yaml.safe_dump(manifest))
    options = ["--volume", str(target / "volume"), *_OURS[name]]
    return [sys.executable, "-m", "strandline", "run", str(path), *options]


def _run(command: Sequence[str], folder: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": join_python_path()}
    done = subprocess.run(  # noqa: S603 - ours
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[1:4])}: {done.stderr[-500:]}")


def _digest(target: Path) -> tuple[int, str]:
    """Return how many rows there are, and a digest of them in any order."""
    digest, count = 0, 0
    for path in target.rglob("*.parquet"):
        for name in pq.read_table(path, columns=["id"])["id"].to_pylist():
            digest ^= int.from_bytes(blake2b(str(name).encode(), digest_size=16).digest(), "big")
            count += 1
    return count, f"{digest:032x}"


def _write(folder: Path, count: int) -> int:
    folder.mkdir(parents=True)
    texts = generate_documents(["A text of a document that is there."], seed=1)
    for at in range(_FILES):
        with (folder / f"{at:02}.jsonl").open("w", encoding="utf-8") as file:
            for number in range(at, count, _FILES):
                row = {"id": f"document-{number:09}", "text": next(texts), "score": number / 7}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return sum(path.stat().st_size for path in folder.iterdir())
