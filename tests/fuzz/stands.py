"""A stand: a random pipeline on its own volume, with access to the results.

This module must not depend on the player or on the disturbances.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from drawing import Chapter, Disturbance, Round
from fuzz_stages import DIED, LISTING, OPENED, TROUBLE
from jobs import Job
from strandline.ledger.errors import LedgerError
from strandline.ledger.store.store import Store
from strandline.plan.token import digest_key
from strandline.storage.outputs.ports import OutputStore
from strandline.storage.outputs.remote import open_outputs

FIRED, TEMPORARY = "fault.log", "tmp"


class Kept(NamedTuple):
    """A finished source in a ledger, without values that may differ between runs."""

    version: bytes
    outputs: tuple[Any, ...]
    pieces: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Books:
    """The finished sources of a ledger by key, and the failed sources."""

    finished: dict[str, Kept]
    failed: frozenset[str]


@dataclass(frozen=True, slots=True)
class Stand:
    """A place to run a random pipeline, with a folder for flags and logs.

    Attributes:
        output: URL of the outputs, or None for the volume.
    """

    volume: Path
    folder: Path
    job: Job
    manifest: Path
    output: str | None

    @classmethod
    def prepare(cls, folder: Path, told: Round, output: str | None) -> Stand:
        """Create the folder with the manifest."""
        (folder / "volume").mkdir(parents=True)
        (folder / TEMPORARY).mkdir()
        manifest = folder / "fuzz.yaml"
        document = {
            "apiVersion": "strandline.dev/v1alpha1",
            "kind": "CurationPipeline",
            "metadata": {"name": "fuzz"},
            "spec": told.spell(str(folder), output),
        }
        manifest.write_text(yaml.safe_dump(document))
        return cls(folder / "volume", folder, Job(manifest), manifest, output)

    @property
    def outputs(self) -> OutputStore:
        """Location of the outputs."""
        return open_outputs(self.output or str(self.job.find_folder(self.volume).output))

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables of the processes."""
        return {"STRANDLINE_FAULT_LOG": str(self.folder / FIRED)}

    @property
    def temporary(self) -> Path:
        """Temporary folder, which must be empty after a run."""
        return self.folder / TEMPORARY

    def list_sources(self, chapter: Chapter) -> None:
        """Set the sources of the next run."""
        gap = chapter.disturbance.gap if chapter.disturbance else None
        told = {"sources": list(chapter.sources.items()), "gap": gap}
        (self.folder / LISTING).write_text(json.dumps(told))

    def arm(self, disturbance: Disturbance) -> dict[str, str]:
        """Set up a disturbance that triggers by itself. Return its environment variables."""
        if disturbance.kind == "trouble":
            told = {"salt": disturbance.nth, "share": disturbance.share}
            told_all = told | {"kind": disturbance.trouble}
            (self.folder / TROUBLE).write_text(json.dumps(told_all))
        if not disturbance.step:
            return {}
        return {"STRANDLINE_FAULT": f"{disturbance.step}:{disturbance.kind}:{disturbance.nth}"}

    def has_fired(self, disturbance: Disturbance) -> bool:
        """Return whether a self-triggering disturbance took place."""
        return (self.folder / (FIRED if disturbance.step else DIED)).exists()

    def disarm(self) -> None:
        """Remove all self-triggering disturbances."""
        for flag in (FIRED, TROUBLE, DIED):
            (self.folder / flag).unlink(missing_ok=True)

    def read_opened(self) -> list[tuple[str, int]]:
        """Return keys and seeds of the opened sources in order."""
        log = self.folder / OPENED
        lines = log.read_text().splitlines() if log.exists() else []
        return [(key, seed) for key, seed in map(json.loads, lines)]

    def read_books(self) -> Books:
        """Return the contents of the ledger."""
        try:
            store = Store(self.job.find_folder(self.volume).ledger, readonly=True)
        except LedgerError:  # no run has created a ledger
            return Books({}, frozenset())
        try:
            finished = {}
            for _, entry, record in store.list_records():
                pieces = tuple(sorted((piece.stage, piece.token) for piece in record.pieces))
                kept = Kept(entry.version, tuple(sorted(record.outputs)), pieces)
                finished[record.key] = kept
            return Books(finished, frozenset(failure.key for _, failure in store.list_failures()))
        finally:
            store.close()

    def digest_outputs(self, books: Books) -> dict[str, str]:
        """Return digests of the outputs by name, without outputs of failed sources."""
        failed = {digest_key(key).hex() for key in books.failed}
        outputs = self.outputs
        return {
            name: outputs.digest(name).hex()
            for name, _ in outputs.list_names()
            if name.split("/")[-2] not in failed
        }

    def list_leftovers(self) -> list[str]:
        """Return the contents of the temporary folder."""
        return sorted(path.name for path in self.temporary.iterdir())

    def read_log(self) -> str:
        """Return the end of the processes' output."""
        log = self.volume / "run.log"
        return log.read_text(errors="replace")[-4000:] if log.exists() else ""
