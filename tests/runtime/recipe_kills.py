"""Runs FineWeb's recipe in five passes with kills at random moments, and then to the end.

Used by the tests on a small crawl and by `make kills`. A moment is a named step of the code, or the
total number of outputs of all passes, so the machine's speed does not matter.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import yaml
from make_crawl import list_pages, write_crawl

from jobs import PATIENCE, end_strays, find_driver
from strandline.ledger.store.store import Store
from strandline.storage.layout import PipelineFolder

EXAMPLE = Path(__file__).parents[2] / "pipelines" / "examples" / "fineweb.yaml"
RANGE_BYTES = 6000  # small ranges give more sources between kills
SECONDS = "0.12"  # sleep per source, so that the ledger commits sources singly
OUTPUT_STEPS = ("output.written", "output.renamed")
STEPS = (*OUTPUT_STEPS, "commit.begun", "commit.written", "commit.synced")
Kept = list[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class RecipeKills:
    """The result of several kills in one run of the recipe.

    Attributes:
        asked, fired: number of requested kills, and of kills that hit a working process.
        passes: pipelines that were working at the time of a kill.
        kept: outputs of finished sources in the ledgers right after a kill.
        rewritten: outputs among `kept` that were written again.
        is_same: whether the final pages equal those of an undisturbed run.
        is_verified: whether `strandline verify` finds no problem in any pass.
    """

    asked: int
    fired: int
    passes: tuple[str, ...]
    kept: int
    rewritten: tuple[str, ...]
    is_same: bool
    is_verified: bool

    @property
    def is_good(self) -> bool:
        """Return True if nothing was lost, duplicated, or rewritten."""
        return self.is_same and self.is_verified and not self.rewritten and self.fired > 0


class Recipe:
    """The recipe over a generated crawl.

    Args:
        folder: contains the crawl and is the working directory.
        pages: number of pages in the crawl.
    """

    def __init__(self, folder: Path, pages: int) -> None:
        self._folder = folder
        self._manifest = folder / EXAMPLE.name
        documents = list(yaml.safe_load_all(EXAMPLE.read_text()))
        documents[0]["spec"]["source"]["with"]["rangeBytes"] = RANGE_BYTES
        for document in documents:
            document["spec"]["stages"].insert(0, {"use": "kill_stages:Dawdle"})
        self._manifest.write_text(yaml.safe_dump_all(documents))
        self.names: tuple[str, ...] = tuple(each["metadata"]["name"] for each in documents)
        write_crawl(folder / "strandline-data" / "crawl", list_pages(pages))

    @contextmanager
    def started(
        self, volume: Path, engine: str = "inline", fault: str = "", only: str = ""
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Start one attempt of each incomplete pass. At the end, kill the remaining processes.

        Args:
            volume, engine: the volume and engine of the run.
            fault: a named step that kills its process, in the format of the fault port.
            only: name of a single pass to run, or an empty string for all passes.
        """
        volume.mkdir(parents=True, exist_ok=True)
        manifest = f"{self._manifest}#{only}" if only else str(self._manifest)
        words = ["run", manifest, "--engine", engine, "--no-supervise"]
        words += ["--volume", str(volume)]
        process = self._start(volume, *words, fault=fault)
        try:
            yield process
        finally:
            kill_all(process)
            process.wait()
            end_strays(volume)

    def run(self, volume: Path, engine: str = "inline", only: str = "") -> None:
        """Run to the end without disturbance."""
        with self.started(volume, engine, only=only) as process:
            code = process.wait(PATIENCE)
        assert code == 0, (volume / "run.log").read_text(errors="replace")[-4000:]

    def verify(self, volume: Path) -> bool:
        """Return True if `strandline verify` finds no problem in any pass."""
        return not any(
            self._start(volume, "verify", f"{self._manifest}#{name}", "--volume", str(volume)).wait(
                PATIENCE
            )
            for name in self.names
        )

    def read_kept(self, volume: Path) -> Kept:
        """Return the sorted rows of the last pass."""
        output = self._find(volume, self.names[-1]).output
        rows = [
            row for path in output.rglob("*.parquet") for row in pq.read_table(path).to_pylist()
        ]
        return sorted((row["key"], row["url"], row["text"]) for row in rows)

    def count_outputs(self, volume: Path) -> dict[str, int]:
        """Count the existing files by pass."""
        return {
            name: len(list(self._find(volume, name).output.glob("???/*/*"))) for name in self.names
        }

    def read_finished(self, volume: Path) -> dict[str, int]:
        """Return the modification times of outputs of finished sources, by name."""
        written: dict[str, int] = {}
        for name in self.names:
            folder = self._find(volume, name)
            if not (folder.ledger / "data.mdb").exists():
                continue
            store = Store(folder.ledger, readonly=True)
            try:
                finished = {
                    f"{output.token.hex()}{output.suffix}"
                    for _, _, record in store.list_records()
                    for output in record.outputs
                }
            finally:
                store.close()
            for path in folder.output.glob("???/*/*"):
                if path.name in finished:
                    written[f"{name}/{path.name}"] = path.stat().st_mtime_ns
        return written

    def find_current(self, volume: Path) -> str:
        """Return the current pass: the last pass that has a folder."""
        begun = [name for name in self.names if self._find(volume, name).path.exists()]
        return begun[-1] if begun else self.names[0]

    def _find(self, volume: Path, name: str) -> PipelineFolder:
        return PipelineFolder.on_volume(volume, "default", name)

    def _start(self, volume: Path, *words: str, fault: str = "") -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "strandline", *words]
        mark = {
            "OPENED_LOG": str(volume / "opened.log"),
            "DAWDLE_SECONDS": SECONDS,
            "PYTHONPATH": str(Path(__file__).parent),
        }
        if fault:
            mark |= {"STRANDLINE_FAULT": fault, "STRANDLINE_FAULT_LOG": str(volume / "fault.log")}
        with (volume / "run.log").open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=self._folder,
                env={**psutil.Process().environ(), **mark},
                stdout=log,
                stderr=log,
            )


def kill_and_finish(
    recipe: Recipe,
    volume: Path,
    seed: int,
    kills: int,
    undisturbed: tuple[Kept, int],
    engine: str = "inline",
) -> RecipeKills:
    """Kill a run of the recipe repeatedly at increasing moments, then run to the end.

    Args:
        undisturbed: pages kept by an undisturbed run, and the number of its outputs.
    """
    chance = random.Random(f"recipe {seed}")
    whole, total = undisturbed
    passes, kept = list[str](), dict[str, int]()
    for moment in sorted(chance.sample(range(total), kills)):
        (volume / "fault.log").unlink(missing_ok=True)
        step = f"{chance.choice(STEPS)}:kill:{chance.randint(1, 4)}" if moment % 2 else ""
        with recipe.started(volume, engine, step) as process:
            if step:
                process.wait(PATIENCE)
                has_fired = (volume / "fault.log").exists()
            else:
                has_fired = _kill_at(recipe, process, volume, moment, chance)
        if has_fired:
            passes.append(recipe.find_current(volume))
        kept |= recipe.read_finished(volume)
    recipe.run(volume, engine)
    return _compare(recipe, volume, kills, passes, kept, whole)


def kill_each_pass(recipe: Recipe, volume: Path, whole: Kept, seed: int) -> RecipeKills:
    """Kill each pass in the middle at a random step before the next pass begins."""
    chance = random.Random(f"each pass {seed}")
    passes, kept = list[str](), dict[str, int]()
    for name, outputs in recipe.count_outputs(volume.parent / "whole").items():
        (volume / "fault.log").unlink(missing_ok=True)
        fault = f"{chance.choice(OUTPUT_STEPS)}:kill:{outputs // 2 + 1}"
        with recipe.started(volume, fault=fault, only=name) as process:
            process.wait(PATIENCE)
        if (volume / "fault.log").exists():
            passes.append(recipe.find_current(volume))
        kept |= recipe.read_finished(volume)
        recipe.run(volume, only=name)
    recipe.run(volume)
    return _compare(recipe, volume, len(recipe.names), passes, kept, whole)


def _compare(
    recipe: Recipe,
    volume: Path,
    kills: int,
    passes: list[str],
    kept: dict[str, int],
    whole: Kept,
) -> RecipeKills:
    now = recipe.read_finished(volume)
    return RecipeKills(
        asked=kills,
        fired=len(passes),
        passes=tuple(dict.fromkeys(passes)),
        kept=len(kept),
        rewritten=tuple(sorted(name for name, time in kept.items() if now.get(name) != time)),
        is_same=recipe.read_kept(volume) == whole,
        is_verified=recipe.verify(volume),
    )


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """Kill a run together with all its child processes."""
    with suppress(psutil.Error):
        for each in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.Error):
                each.kill()
    process.kill()


def kill_driver(process: subprocess.Popen[bytes]) -> None:
    """Kill only the driver, or the whole run if no driver exists."""
    driver = find_driver(process.pid)
    if driver is None:
        kill_all(process)
    else:
        driver.kill()


def _kill_at(
    recipe: Recipe,
    process: subprocess.Popen[bytes],
    volume: Path,
    moment: int,
    chance: random.Random,
) -> bool:
    """Kill at a number of outputs or shortly afterwards. Return True if a process was working."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        if sum(recipe.count_outputs(volume).values()) >= moment:
            time.sleep(chance.choice((0, 0.3)) * chance.random())
            is_at_work = process.poll() is None
            chance.choice((kill_driver, kill_all))(process)
            process.wait(PATIENCE)
            return is_at_work
        time.sleep(0.02)
    return False
