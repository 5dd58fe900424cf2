"""A drawn pipeline on a volume of its own, and what it leaves there.

It must not know who runs it, nor what is done to it meanwhile.
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
    """What a ledger holds of a finished source, without what may differ between two runs."""

    version: bytes
    outputs: tuple[Any, ...]
    pieces: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Books:
    """What a ledger says of finished sources, by key, and which have failed."""

    finished: dict[str, Kept]
    failed: frozenset[str]


@dataclass(frozen=True, slots=True)
class Stand:
    """Where a drawn pipeline is run, with a folder for its flags and logs.

    Attributes:
        output: URL of its outputs; None: on the volume.
    """

    volume: Path
    folder: Path
    job: Job
    manifest: Path
    output: str | None

    @classmethod
    def prepare(cls, folder: Path, told: Round, output: str | None) -> Stand:
        """Make the folder, with the manifest in it."""
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
        """Where its outputs are."""
        return open_outputs(self.output or str(self.job.find_folder(self.volume).output))

    @property
    def variables(self) -> dict[str, str]:
        """What its processes need in their environment."""
        return {"STRANDLINE_FAULT_LOG": str(self.folder / FIRED)}

    @property
    def temporary(self) -> Path:
        """A temporary folder, of which nothing may be left."""
        return self.folder / TEMPORARY

    def list_sources(self, chapter: Chapter) -> None:
        """Have these sources be listed."""
        gap = chapter.disturbance.gap if chapter.disturbance else None
        told = {"sources": list(chapter.sources.items()), "gap": gap}
        (self.folder / LISTING).write_text(json.dumps(told))

    def arm(self, disturbance: Disturbance) -> dict[str, str]:
        """Set up what happens by itself; the environment for it."""
        if disturbance.kind == "trouble":
            told = {"salt": disturbance.nth, "share": disturbance.share}
            told_all = told | {"kind": disturbance.trouble}
            (self.folder / TROUBLE).write_text(json.dumps(told_all))
        if not disturbance.step:
            return {}
        return {"STRANDLINE_FAULT": f"{disturbance.step}:{disturbance.kind}:{disturbance.nth}"}

    def has_fired(self, disturbance: Disturbance) -> bool:
        """What happens by itself has happened."""
        return (self.folder / (FIRED if disturbance.step else DIED)).exists()

    def disarm(self) -> None:
        """Let nothing happen by itself any more."""
        for flag in (FIRED, TROUBLE, DIED):
            (self.folder / flag).unlink(missing_ok=True)

    def read_opened(self) -> list[tuple[str, int]]:
        """Keys and seeds of the sources that were opened, in that order."""
        log = self.folder / OPENED
        lines = log.read_text().splitlines() if log.exists() else []
        return [(key, seed) for key, seed in map(json.loads, lines)]

    def read_books(self) -> Books:
        """What its ledger says."""
        try:
            store = Store(self.job.find_folder(self.volume).ledger, readonly=True)
        except LedgerError:  # nobody came to making one
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
        """Digests of the outputs by name, but for those of sources that have failed."""
        failed = {digest_key(key).hex() for key in books.failed}
        outputs = self.outputs
        return {
            name: outputs.digest(name).hex()
            for name, _ in outputs.list_names()
            if name.split("/")[-2] not in failed
        }

    def list_leftovers(self) -> list[str]:
        """What lies in its temporary folder."""
        return sorted(path.name for path in self.temporary.iterdir())

    def read_log(self) -> str:
        """The end of what its processes have printed."""
        log = self.volume / "run.log"
        return log.read_text(errors="replace")[-4000:] if log.exists() else ""
