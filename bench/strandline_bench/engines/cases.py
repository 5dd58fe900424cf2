"""Defines the cases that all engines run: inputs, the work of each stage, and expected outputs.

Each process rebuilds a case from its name and size, so cases are never transferred.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from strandline.engine.loop.roots import make_root
from strandline.run.attempt.sources.partitions import open_listing
from strandline.run.manifest.manifest import read_manifest
from strandline_bench.engines.records import Recorded, Summary, sum_up
from strandline_bench.engines.work.examples import ExampleStage
from strandline_bench.engines.work.works import (
    Items,
    MakeBlock,
    Nap,
    Spread,
    Stir,
    Work,
    change_blocks,
    keep,
    make_bytes,
    mix,
    weigh,
    weigh_changed,
)
from strandline_bench.ground.folders import ROOT

EXAMPLES = ("python-functions", "text-documents")
LOGICAL_CPUS = 8
# Maximum number of input files of an example. With this number, each engine takes a minute or more.
_MOST_FILES = {"python-functions": 3000}
_BLOCK = 10_000_000
_COSTS = (1, 10, 2)
# The best number of workers per stage, if eight CPUs are divided among stages that cost 1 : 10 : 2.
_BEST = (1, 5, 2)


@dataclass(frozen=True, slots=True)
class Case:
    """A benchmark case: inputs, stages, and limits.

    Attributes:
        name: name on the command line.
        title: name in the table.
        cpus: logical CPUs of a Ray cluster, or processes of an engine without Ray.
        batch: items per call.
        works: work functions of the stages in order; the last returns nothing.
        items: function that creates the inputs on each call.
        kind: type of the items between stages: `number`, `bytes`, `block`, or `task`.
        cpu: CPUs per worker.
        sizes: workers per stage, for engines that require a number.
        is_sized: whether all engines get these sizes, or only those that cannot choose.
        limit: timeout of a run in seconds.
        expected: expected output, or None to expect the first run's output.
        optimum: items per second at the optimum, or None if unknown.
        manifest, settings: manifest of an example, and its overrides.
    """

    name: str
    title: str
    cpus: int
    batch: int
    works: tuple[Work, ...]
    items: Callable[[], Items]
    kind: str
    cpu: float
    sizes: tuple[int, ...]
    is_sized: bool
    limit: float
    expected: Summary | None
    optimum: float | None = None
    manifest: Path | None = None
    settings: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """The number of inputs."""
        return len(self.items())


def list_names() -> tuple[str, ...]:
    """Return the names of all cases in table order."""
    return ("tiny", "skewed", "blocks", *EXAMPLES, "ratio", "fanout")


def build_case(name: str, folder: Path, *, is_quick: bool) -> Case:
    """Return a case by name.

    Args:
        folder: folder for output files.
    """
    if name in EXAMPLES:
        return _build_example(name, folder, is_quick=is_quick)
    builders: dict[str, Callable[[int, Path], Case]] = {
        "tiny": build_tiny,
        "skewed": build_skewed,
        "blocks": build_blocks,
        "ratio": build_ratio,
        "fanout": build_fanout,
    }
    full = {"tiny": 100_000, "skewed": 4_000, "blocks": 1_000, "ratio": 1_000, "fanout": 10_000}
    quick = {"tiny": 4_000, "skewed": 800, "blocks": 60, "ratio": 150, "fanout": 800}
    count = (quick if is_quick else full)[name]
    return builders[name](count, folder)


def build_tiny(count: int, folder: Path, cpus: int | None = None) -> Case:
    """Return a case of hundred-byte items that pass four stages with almost no work."""
    cpus = cpus or count_cores()
    stirs = [Stir(salt) for salt in (3, 5, 7, 11)]
    weights = _weigh_stirred(stirs, count)
    return Case(
        name="tiny",
        title=f"(a) {count:,} tiny tasks through four stages",
        cpus=cpus,
        batch=16,
        works=(*stirs[:-1], Recorded(stirs[-1], folder)),
        items=lambda: [make_bytes(number) for number in range(count)],
        kind="bytes",
        cpu=0.25 * cpus,
        sizes=(1, 1, 1, 1),
        is_sized=True,
        limit=120,
        expected=sum_up(weights),
    )


def build_skewed(count: int, folder: Path, cpus: int = LOGICAL_CPUS, nap: float = 0.005) -> Case:
    """Return a case with one stage of sleeps; one in a hundred is a hundred times longer."""
    return Case(
        name="skewed",
        title=f"(b) {count:,} naps of {nap * 1000:g} ms, 1 % of them 100 × longer",
        cpus=cpus,
        batch=4,
        works=(Recorded(Nap(nap, nap * 100), folder),),
        items=lambda: list(range(count)),
        kind="number",
        cpu=1.0,
        sizes=(cpus,),
        is_sized=False,
        limit=120,
        expected=sum_up(mix(number) for number in range(count)),
    )


def build_blocks(count: int, folder: Path, cpus: int | None = None, size: int = _BLOCK) -> Case:
    """Return a case whose three stages create, change, and weigh ten-megabyte blocks."""
    cpus = cpus or count_cores()
    return Case(
        name="blocks",
        title=f"(c) {count:,} tasks of {size / 1e6:g} MB through three stages",
        cpus=cpus,
        batch=1,
        works=(MakeBlock(size), change_blocks, Recorded(keep, folder)),
        items=lambda: list(range(count)),
        kind="block",
        cpu=0.3 * cpus,
        sizes=(1, 1, 1),
        is_sized=True,
        limit=240,
        expected=sum_up(weigh_changed(number, size) for number in range(count)),
    )


def build_ratio(count: int, folder: Path, cpus: int = LOGICAL_CPUS, unit: float = 0.02) -> Case:
    """Return a case of three stages that sleep, with a cost ratio of 1 : 10 : 2."""
    naps = [Nap(unit * cost) for cost in _COSTS]
    pace = min(size / (cost * unit) for size, cost in zip(_BEST, _COSTS, strict=True))
    return Case(
        name="ratio",
        title=f"(e) {count:,} tasks, three stages that cost 1:10:2, {cpus} CPUs",
        cpus=cpus,
        batch=1,
        works=(*naps[:-1], Recorded(naps[-1], folder)),
        items=lambda: list(range(count)),
        kind="number",
        cpu=1.0,
        sizes=_BEST,
        is_sized=False,
        limit=150,
        expected=sum_up(mix(number) for number in range(count)),
        optimum=pace,
    )


def build_fanout(count: int, folder: Path, cpus: int = LOGICAL_CPUS, nap: float = 0.005) -> Case:
    """Return a case whose single input becomes many sleeps, one in a hundred much longer."""
    return Case(
        name="fanout",
        title=f"(f) one item that becomes {count:,} naps of {nap * 1000:g} ms, 1 % of them longer",
        cpus=cpus,
        batch=4,
        works=(Spread(count), Recorded(Nap(nap, nap * 100), folder)),
        items=lambda: [0],
        kind="number",
        cpu=1.0,
        sizes=(1, cpus - 1),
        is_sized=False,
        limit=60,  # half the time of a single worker
        expected=sum_up(mix(number) for number in range(count)),
    )


def count_cores() -> int:
    """Return the number of cores available to this process."""
    return len(os.sched_getaffinity(0))


def _build_example(name: str, folder: Path, *, is_quick: bool) -> Case:
    manifest = ROOT / "pipelines" / "examples" / f"{name}.yaml"
    limit = 300 if is_quick else _MOST_FILES.get(name)
    if limit is None:
        return build_example(manifest, (), folder)
    case = build_example(manifest, (f"source.with.limit={limit}",), folder)
    return replace(case, title=f"{case.title}, {limit:,} of its files")


def build_example(manifest: Path, settings: tuple[str, ...], folder: Path) -> Case:
    """Return a case that runs the pipeline of a manifest."""
    plan = read_manifest(manifest, settings).plan
    output = folder / "output"
    indexes = range(len(plan.stages))

    def list_tasks() -> Items:
        listing, tasks = open_listing(plan), list[Any]()
        while not listing.is_ended:
            tasks += [make_root(listed, source) for listed, source in listing.draw()]
        return tasks

    return Case(
        name=manifest.stem,
        title=f"(d) the example {manifest.stem}",
        cpus=count_cores(),
        batch=1,
        works=tuple(ExampleStage(manifest, settings, index, output) for index in indexes),
        items=list_tasks,
        kind="task",
        cpu=0.95 * count_cores() / len(indexes),
        sizes=(1,) * len(indexes),
        is_sized=False,
        limit=400,
        expected=None,
        manifest=manifest,
        settings=settings,
    )


def _weigh_stirred(stirs: list[Stir], count: int) -> list[int]:
    items: Items = [make_bytes(number) for number in range(count)]
    for stir in stirs:
        items = stir(items)
    return [weigh(item) for item in items]
