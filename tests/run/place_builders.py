"""A small pipeline whose outputs go to a location that the test chooses."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import yaml

from strandline.ledger.access.lease import OnChange
from strandline.ledger.records.entries import Change
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import PipelinePlan
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.attempt.outcome import AttemptResult
from strandline.run.manifest.manifest import read_manifest
from strandline.storage.layout import PipelineFolder


class Letters:
    """A pipeline over one-letter files.

    Attributes:
        name: name of the pipeline.
        volume: folder with the ledger.
    """

    def __init__(self, path: Path, name: str = "letters", volume: str = "volume") -> None:
        self.name = name
        self.path = path
        self.volume = path / volume
        (path / "letters").mkdir(exist_ok=True)
        for letter in "abc":
            self.add(letter)

    @property
    def folder(self) -> PipelineFolder:
        return PipelineFolder.on_volume(self.volume, "default", self.name)

    def add(self, letter: str) -> None:
        (self.path / f"letters/{letter}.txt").write_text(letter)

    def plan(
        self,
        *,
        path: str | None = None,
        url: str | None = None,
        sink: str = "jsonl",
        name: str | None = None,
    ) -> PipelinePlan:
        """Return the plan, optionally with a path of the sink, an output URL, or another sink."""
        use = {"jsonl": "jsonl", "text": "parquet"}[sink]
        end: dict[str, Any] = {"use": use, "with": {} if path is None else {"path": path}}
        document = {
            "apiVersion": "strandline.dev/v1alpha1",
            "kind": "CurationPipeline",
            "metadata": {"name": self.name},
            "spec": {
                "source": {"use": "files", "with": {"paths": [f"{self.path}/letters/*.txt"]}},
                "stages": [{"use": "read-files"}],
                "sink": end | ({} if name is None else {"name": name}),
                "storage": {"output": {} if url is None else {"url": url}},
            },
        }
        manifest = self.path / f"{self.name}.yaml"
        manifest.write_text(yaml.safe_dump(document))
        return read_manifest(manifest).plan

    def run(self, *, on_change: OnChange = OnChange.FAIL, **changes: Any) -> AttemptResult:
        """Run one attempt in this process. `changes` are passed to `plan`."""
        plan = self.plan(**changes)
        return run_attempt(AttemptConfig(plan, self.volume, engine="inline", on_change=on_change))

    def count(self, place: Path) -> int:
        """Count the outputs at a location."""
        return len(list(place.rglob("*.jsonl")))


def forget_place(folder: PipelineFolder) -> None:
    """Make the ledger look like an older release's, without a record of the output location."""
    with closing(Store(folder.ledger)) as store:
        store.write(Change(meta={"outputs": None}))
