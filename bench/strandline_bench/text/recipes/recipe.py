"""Compares FineWeb's recipe in Strandline and in datatrove on the same crawl: agreement and speed.

Both run as separate processes, as users would run them, and the measured time includes the start.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml
from make_crawl import list_pages, read_installed, write_crawl

from strandline_bench.engines.rivals.index import find_rival
from strandline_bench.ground.folders import EXAMPLES, join_python_path
from strandline_bench.ground.scale import Scale
from strandline_bench.ground.table import Row, format_number, reach
from strandline_bench.text.agreement import Agreement

EXAMPLE = EXAMPLES / "fineweb.yaml"
FILTERS = ("gopher-repetition", "gopher-quality", "c4-quality", "fineweb-quality")
CRAWL = "strandline-data/crawl"
RANGE_BYTES = 200_000
FILES = 8  # files of the crawl, which datatrove processes in parallel
PARTS = {
    "pages": ("fineweb-pages",),
    "minhash": ("fineweb-signatures", "fineweb-links", "fineweb-duplicates", "fineweb"),
}
UNIT = "pages/s a core"


class RecipeRuns:
    """A crawl, and the results of both recipes.

    Args:
        folder: folder for all files.
        pages: number of generated pages.
        installed: number of additional documents from this machine.
        is_compatible: whether Strandline reproduces datatrove's decisions, including its mistakes.
    """

    def __init__(
        self, folder: Path, pages: int, installed: int = 0, *, is_compatible: bool = False
    ) -> None:
        self._folder = folder
        found = [page for _, page in zip(range(installed), read_installed(), strict=False)]
        self.pages = [*list_pages(pages), *found]
        # Distribute the pages over enough files for both to work in parallel.
        step = -(-len(self.pages) // FILES)
        for at in range(0, len(self.pages), step):
            write_crawl(folder / CRAWL / f"{at:06}", self.pages[at : at + step])
        for path in sorted((folder / CRAWL).glob("*/*.gz")):
            path.rename(folder / CRAWL / f"{path.parent.name}-{path.name}")
        self._manifest = folder / EXAMPLE.name
        self._manifest.write_text(_adapt(EXAMPLE.read_text(), is_compatible=is_compatible))

    def run_ours(self, part: str, *words: str) -> float:
        """Run a part of Strandline's recipe, and return the seconds."""
        files = [f"{self._manifest}#{name}" for name in PARTS[part]]
        return self._time("-m", "strandline", "run", *files, *words)

    def run_theirs(self, part: str, workers: int = 1) -> float:
        """Run a part of datatrove's recipe, and return the seconds."""
        script = [
            "-m",
            "strandline_bench.text.recipes.recipe_datatrove",
            CRAWL,
            "theirs",
            "--part",
            part,
        ]
        return self._time(*script, "--tasks", str(FILES), "--workers", str(workers))

    def read_ours(self) -> tuple[set[str], set[str]]:
        """Return the keys that Strandline's recipe keeps before and after deduplication.

        A cluster is represented by its first page in the crawl, as in datatrove's recipe: the
        choice within a cluster is arbitrary, and not compared.
        """
        volume = self._folder / "strandline-data" / "default"
        before = {row["key"] for row in _read(volume / "fineweb-pages" / "output")}
        clusters: dict[str, list[str]] = {}
        for row in _read(volume / "fineweb-duplicates" / "output"):
            clusters.setdefault(row["stays"], [row["stays"]]).append(row["key"])
        dropped = {
            key for keys in clusters.values() for key in sorted(keys, key=_find_position)[1:]
        }
        return before, before - dropped

    def read_theirs(self) -> tuple[set[str], set[str]]:
        """Return the keys that datatrove's recipe keeps before and after deduplication."""
        before, after = (
            {row["id"] for row in _read(self._folder / "theirs" / name)}
            for name in ("pages", "kept")
        )
        return before, after

    def _time(self, *words: str) -> float:
        begun = time.monotonic()
        done = subprocess.run(  # noqa: S603 - our own commands
            [sys.executable, *words],
            cwd=self._folder,
            env={**os.environ, "PYTHONPATH": join_python_path(EXAMPLES)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            msg = f"{' '.join(words)} ended with {done.returncode}: {done.stderr[-2000:]}"
            raise RuntimeError(msg)
        return time.monotonic() - begun


def compare_recipes(runs: RecipeRuns) -> list[Agreement]:
    """Run both recipes, and compare the kept pages before and after deduplication."""
    for part in PARTS:
        runs.run_ours(part, "--engine", "inline")
        runs.run_theirs(part)
    ours, theirs = runs.read_ours(), runs.read_theirs()
    names = ("the recipe until MinHash", "the whole recipe")
    return [
        _compare(name, len(runs.pages), mine, other)
        for name, mine, other in zip(names, ours, theirs, strict=True)
    ]


def measure_recipe(scale: Scale) -> list[Row]:
    """Run the recipe over the same crawl with Strandline and with datatrove.

    Strandline's time includes its ledgers. Rows cover WARC to clean text, MinHash over the kept
    documents, and both together.
    """
    cores = 1 if scale.is_quick else os.cpu_count() or 1
    runs = RecipeRuns(scale.folder / "recipe", scale.pick(100_000, 34))
    words = (
        ("--engine", "inline") if scale.is_quick else ("--engine", "ray", "--workers", str(cores))
    )
    ours = {part: runs.run_ours(part, *words) for part in PARTS}
    theirs: dict[str, float] = {}
    if find_rival("datatrove").is_installed():
        theirs = {part: runs.run_theirs(part, cores) for part in PARTS}
    rows = []
    parts = {"from WARC to clean pages": ("pages",), "MinHash": ("minhash",), "whole": (*PARTS,)}
    for what, names in parts.items():
        name = f"FineWeb's recipe, {len(runs.pages):,} pages, {what}"
        rate = len(runs.pages) / cores
        mine = rate / sum(ours[part] for part in names)
        rows.append(Row(name, format_number(mine, UNIT)))
        if theirs:
            other = rate / sum(theirs[part] for part in names)
            rows.append(Row(f"{name}: datatrove", format_number(other, UNIT)))
            rows.append(reach(f"{name}: times as fast", mine / other, 1, "×"))
    return rows


def _compare(name: str, total: int, ours: set[str], theirs: set[str]) -> Agreement:
    found = Agreement(name, len(ours & theirs), len(ours - theirs), len(theirs - ours))
    found.neither = total - found.both - found.ours - found.theirs
    found.differing = [(key, "ours alone") for key in sorted(ours - theirs)]
    found.differing += [(key, "theirs alone") for key in sorted(theirs - ours)]
    return found


def _adapt(text: str, *, is_compatible: bool) -> str:
    """Return the example's manifest with larger ranges and, optionally, compatible filters."""
    documents: list[dict[str, Any]] = list(yaml.safe_load_all(text))
    spec = documents[0]["spec"]
    spec["source"]["with"]["rangeBytes"] = RANGE_BYTES
    for stage in spec["stages"]:
        if is_compatible and stage["use"] in FILTERS:
            stage["with"] = {**stage.get("with", {}), "compatible": True}
    return yaml.safe_dump_all(documents)


def _read(folder: Path) -> list[dict[str, Any]]:
    names: Sequence[Path] = sorted(folder.rglob("*.parquet"))
    return [row for path in names for row in pq.read_table(path).to_pylist()]


def _find_position(key: str) -> tuple[str, int]:
    """Return a page's position in the crawl: its file and offset."""
    file, _, offset = key.rpartition("#")
    return file, int(offset)
