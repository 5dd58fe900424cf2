"""Draws a round of the fuzzer from its seed: a pipeline, its sources, and its kills.

Pure: the same seed draws the same round. This module must not depend on how rounds are played.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from fuzz_stages import LARGE, RAISED
from strandline.storage.faults import STEPS

# Keys as users might choose, and hostile keys.
ODD_KEYS = (
    "../up",
    "/absolute",
    " spaces ",
    "a\nb",
    "tab\t",
    "nul\0",
    "%2F",
    "ä",
    "a\u0308",
    "\U0001f9f5",
    "'; --",
    "None",
    "half \udc80",  # invalid UTF-8, so its source fails
    "k" * 5000,
)
GATHERING = frozenset({"piece", "shard", "merged", "pack", "gather", "artifacts"})
_ALL = ("moment", "moment", "stop", "trouble", "trouble")
KINDS = {
    "inline": (*["kill"] * 5, "enospc", "eio", "rival", "gap", *_ALL),
    "processes": (*["kill"] * 3, "enospc", "eio", "moment", *_ALL),
    "ray": (*["kill"] * 3, "enospc", "eio", "moment", *_ALL),
    "nodes": (*["lost"] * 4, "moment", *_ALL),  # faults are off, so kills at steps are impossible
}
TARGETS = ("driver", "worker", "worker", "ledger", "raylet")
FORKED_TARGETS = ("driver", "worker", "worker", "worker", "forker")
Sources = dict[str, int]


@dataclass(frozen=True, slots=True)
class Disturbance:
    """A disturbance of one run.

    Attributes:
        kind: `kill`, `enospc`, `eio` (at a step), `moment` (a kill at any time), `stop` (SIGTERM),
            `trouble` (the stage `Trouble` fails), `rival` (a second driver), `gap` (an incomplete
            listing), `lost` (a node).
        step, nth: the step, and the pass through it, for disturbances at a step.
        target: the kind of process to kill, if there are several.
        moment: progress of the run, from 0 to 1.
        trouble: instruction for the stage.
        gap: number of listed sources.
    """

    kind: str
    step: str = ""
    nth: int = 1
    target: str = "driver"
    moment: float = 0.0
    trouble: str = ""
    share: int = 4
    gap: int | None = None

    def __str__(self) -> str:
        if self.step:
            return f"{self.kind} {self.step}#{self.nth}"
        return " ".join(filter(None, [self.kind, self.trouble or self.target]))


@dataclass(frozen=True, slots=True)
class Chapter:
    """The sources of a run, and its disturbance. The disturbance is None for an undisturbed run."""

    sources: Sources
    disturbance: Disturbance | None


@dataclass(frozen=True, slots=True)
class Round:
    """The chapters of a round, in order. The last is undisturbed and equals the reference run.

    Attributes:
        source, stages, sink: of the spec, where `FOLDER` stands for a folder that each volume has
            separately.
        is_shared: True if some of the sources share storage.
    """

    seed: int
    source: dict[str, Any]
    stages: tuple[dict[str, Any], ...]
    sink: dict[str, Any]
    chapters: tuple[Chapter, ...]
    is_shared: bool

    def spell(self, folder: str, output: str | None) -> dict[str, Any]:
        """Return the pipeline's `spec`, with the given folder for flags and logs."""
        spec: dict[str, Any] = {
            "source": _place(self.source, folder),
            "stages": [_place(stage, folder) for stage in self.stages],
            "sink": self.sink,
            "checkpoint": {"interval": "1s", "keepLast": 1},
            # Do not quarantine sources because of the many kills.
            "quarantine": {"after": 10_000},
        }
        return spec | ({"storage": {"output": {"url": output}}} if output else {})


def draw_round(seed: int, player: str = "inline") -> Round:
    """Draw the round of a seed for a player: `inline`, `processes`, `ray`, or `nodes`."""
    rng = random.Random(f"{seed} {player}")
    is_shared = rng.random() < 0.2
    deletes = is_shared or rng.random() < 0.6
    source = {
        "use": f"fuzz_stages:{'Shared' if is_shared else 'Listed'}",
        "with": {"folder": "FOLDER", "onRemoved": "Delete" if deletes else "Keep"},
    }
    stages, sink = _draw_stages(rng)
    _draw_cuts(random.Random(f"{seed} chains"), [*stages, sink])
    _draw_errors(random.Random(f"{seed} errors"), stages)
    chapters = tuple(_draw_chapters(rng, player, deletes=deletes))
    return Round(seed, source, tuple(stages), sink, chapters, is_shared)


def _draw_stages(rng: random.Random) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    kinds = ["Split", "Split", "Batched", "Joined", "Kept"]
    chain = [rng.choice(kinds) for _ in range(rng.randint(0, 5))]
    chain.insert(rng.randint(0, len(chain)), "Trouble")
    if rng.random() < 0.2:
        chain.insert(rng.randint(0, len(chain)), "Failing")
    sink: dict[str, Any] = {"use": "fuzz_stages:WordSink"}
    if rng.random() < 0.4:
        sink = {"use": rng.choice(["jsonl", "parquet"])}
        chain.append("Tabulate")
    sink["batchSize"] = rng.randint(1, 4)
    stages = [
        {"use": f"fuzz_stages:{kind}", "name": f"{kind.lower()}-{number}", **_dress(rng, kind)}
        for number, kind in enumerate(["Open", *chain])
    ]
    return stages, sink


def _draw_cuts(rng: random.Random, items: list[dict[str, Any]]) -> None:
    """Isolate no stage, all stages, or some stages."""
    share = rng.choice([0.0, 1.0, 0.4])
    for item in items:
        item["isolate"] = rng.random() < share


def _draw_errors(rng: random.Random, stages: list[dict[str, Any]]) -> None:
    """In some rounds, set an error policy for failing stages, and add a stage that fails rows.

    `Trouble` fails in some runs only, so its failures must remain failures of sources.
    """
    if stages[-1]["use"].endswith(":Tabulate") and rng.random() < 0.6:
        picky = {"use": "fuzz_stages:Picky", "name": "picky", "resources": {"cpu": 0.05}}
        stages.append(picky | {"with": {"salt": rng.randrange(1000)}, "isolate": False})
    for stage in stages:
        if stage["use"].endswith((":Failing", ":Picky", ":Batched")) and rng.random() < 0.7:
            stage["onError"] = rng.choice(["drop", "deadLetter", "deadLetter"])


def _dress(rng: random.Random, kind: str) -> dict[str, Any]:
    """Return random settings for a stage of the given kind."""
    salt = rng.randrange(1000)
    own: dict[str, Any] = {"resources": {"cpu": 0.05}}
    if kind in {"Open", "Trouble"}:
        return own | {"with": {"folder": "FOLDER"}}
    if kind == "Tabulate":
        return own
    if kind == "Batched":
        own["batchSize"] = rng.randint(1, 5)
    if kind == "Joined":
        own["group"] = rng.randint(2, 4)
    more: dict[str, Any] = {}
    if kind == "Kept":
        more["padding"] = rng.choice([0, 0, 300, LARGE])
    if kind == "Failing":
        more = {"kind": rng.choice([*RAISED, "FailedTask"]), "share": rng.randint(3, 20)}
    return own | {"with": {"salt": salt, **more}}


def _draw_chapters(rng: random.Random, player: str, *, deletes: bool) -> list[Chapter]:
    odd = rng.sample(ODD_KEYS, rng.choice([0, 1, 3]))
    names = [*odd, *(f"{number:03d}" for number in range(rng.randint(1, 30)))]
    rng.shuffle(names)
    version = 0
    sources: Sources = {}
    for name in names:
        version += 1
        sources[name] = version
    chapters = []
    # A run on Ray takes seconds.
    for _ in range(rng.randint(1, 6 if player == "inline" else 3)):
        chapters.append(Chapter(dict(sources), _draw_disturbance(rng, player, len(sources))))
        for _ in range(rng.choice([0, 0, 1, 3])):
            version += 1
            _change(rng, sources, version, deletes=deletes)
    return [*chapters, Chapter(sources, None)]


def _change(rng: random.Random, sources: Sources, version: int, *, deletes: bool) -> None:
    """Add, change, or remove a source. Versions are never reused."""
    if deletes and len(sources) > 1 and rng.random() < 0.4:
        del sources[rng.choice(sorted(sources))]
    elif sources and rng.random() < 0.5:
        sources[rng.choice(sorted(sources))] = version
    else:
        sources[f"later {version}"] = version


def _draw_disturbance(rng: random.Random, player: str, sources: int) -> Disturbance:
    kind, moment = rng.choice(KINDS[player]), rng.random()
    if kind in {"kill", "enospc", "eio"}:
        steps = [step for step in STEPS if step.partition(".")[0] in GATHERING]
        step = rng.choice(STEPS if rng.random() < 0.7 else steps)
        return Disturbance(kind, step=step, nth=rng.choice([1, 1, 2, 3, 7]))
    if kind == "trouble":
        trouble = "die" if rng.random() < 0.5 else rng.choice(RAISED)
        return Disturbance(kind, trouble=trouble, share=rng.randint(2, 12))
    if kind == "gap":
        return Disturbance(kind, gap=rng.randint(1, max(1, sources)))
    targets = FORKED_TARGETS if player == "processes" else TARGETS
    return Disturbance(kind, target=rng.choice(targets), moment=moment)


def _place(item: dict[str, Any], folder: str) -> dict[str, Any]:
    """Return the item with `FOLDER` replaced."""
    told = {
        name: folder if value == "FOLDER" else value for name, value in item.get("with", {}).items()
    }
    return item | ({"with": told} if told else {})
