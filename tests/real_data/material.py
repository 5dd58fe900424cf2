"""Inputs as other programs write them, and the expected result of a whole pipeline for each.

A case is a user's setup: files in a folder, and a pipeline file. The expectation is the visible
result: exit code, rows, counters, and the first message.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

from strandline import Pipeline
from strandline.ledger.checks.verification import verify
from strandline.ledger.store.store import Store
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.disk.local_outputs import LocalOutputs

Json = dict[str, Any]
NAME = "corpus"


@dataclass(frozen=True, slots=True)
class Sight:
    """The result visible to a user.

    Attributes:
        code: the run's exit code.
        rows: of all outputs.
        counted: numbers of rows or records by reason, summed over all stages.
        sentence: the message of the first failed source, or a part of it.
    """

    code: str
    rows: int
    counted: Mapping[str, int] = field(default_factory=dict)
    sentence: str = ""

    def __str__(self) -> str:
        parts = [self.code, f"{self.rows} rows"]
        parts += [f"{reason}: {count}" for reason, count in sorted(self.counted.items())]
        return "; ".join([*parts, *([self.sentence] if self.sentence else [])])


@dataclass(frozen=True, slots=True)
class Case:
    """One input.

    Attributes:
        family: name of a group of similar inputs.
        words: a description.
        write: writes it into a folder.
        source, stages: of the pipeline; `FOLDER` in a text stands for the folder.
        expected: the expected result, with a part of the message.
    """

    family: str
    words: str
    write: Callable[[Path], object]
    source: Json
    stages: Sequence[Json]
    expected: Sight

    def play(self, folder: Path) -> Sight:
        """Write the input and run the pipeline over it."""
        data = folder / "data"
        data.mkdir(parents=True)
        self.write(data)
        spec = {"source": self.source, "stages": list(self.stages), "sink": {"use": "parquet"}}
        document = {
            "apiVersion": "strandline.dev/v1alpha1",
            "kind": "CurationPipeline",
            "metadata": {"name": NAME},
            "spec": spec,
        }
        path = folder / "pipeline.yaml"
        path.write_text(yaml.safe_dump(document).replace("FOLDER", str(data)), encoding="utf-8")
        outcome = Pipeline.from_file(path).run(folder / "volume", engine="inline")
        _check_verified(folder / "volume")
        counted: Counter[str] = Counter()
        for counts in outcome.counts.values():
            counted.update(counts.counters)
        return Sight(
            outcome.code.name,
            sum(pq.ParquetFile(output).metadata.num_rows for output in outcome.outputs),
            dict(counted),
            outcome.failures[0].message.replace(f"{data}/", "") if outcome.failures else "",
        )

    def is_met(self, sight: Sight) -> bool:
        """Return whether the result matches the expectation."""
        has_said = self.expected.sentence in sight.sentence
        said_what_it_should = has_said and bool(self.expected.sentence) == bool(sight.sentence)
        return said_what_it_should and (sight.code, sight.rows, sight.counted) == (
            self.expected.code,
            self.expected.rows,
            self.expected.counted,
        )


def _check_verified(volume: Path) -> None:
    folder = PipelineFolder.on_volume(volume, "default", NAME)
    store = Store(folder.ledger, readonly=True)
    try:
        verdict = verify(store, LocalOutputs(folder.output))
    finally:
        store.close()
    assert not verdict.problems, verdict.problems


def put(name: str, content: bytes) -> Callable[[Path], object]:
    """Return a function that writes a file with this name and content into a folder."""
    return lambda folder: (folder / name).write_bytes(content)


def complete(rows: int, **counted: int) -> Sight:
    """Expect a complete run; underscores in reasons stand for spaces."""
    return Sight("COMPLETE", rows, {name.replace("_", " "): each for name, each in counted.items()})


def fails(sentence: str, rows: int = 0, counted: Mapping[str, int] | None = None) -> Sight:
    """Expect a failed source with this message."""
    return Sight("SOURCES_FAILED", rows, counted or {}, sentence)
