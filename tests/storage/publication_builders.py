"""Builds publications for tests, and simulates a process that crashes while building them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.latest import resolve
from strandline.storage.volume.publications import publish
from strandline.storage.volume.published import (
    MANIFEST,
    Publication,
    PublicationId,
    read_publication,
)

FILES = {"metrics.json": b'{"rows": 3}', "artifacts/hashes.bin": b"\0\1", "artifacts/empty": b""}


class Crash(BaseException):
    """Simulates the end of the process. Error handlers must not catch this exception."""


@dataclass
class Steps:
    """Counts the reached steps, and crashes at one of them."""

    crash_at: int | None = None
    reached: list[str] = field(default_factory=list)

    def __call__(self, step: str) -> None:
        self.reached.append(step)
        if self.crash_at == len(self.reached):
            raise Crash(step)


def watch_steps(monkeypatch: pytest.MonkeyPatch, crash_at: int | None = None) -> Steps:
    steps = Steps(crash_at)
    monkeypatch.setattr("strandline.storage.faults.reach", steps)
    return steps


def make(folder: PipelineFolder, *places: tuple[int, int]) -> list[Publication]:
    """Publish at exactly these places in this order. `latest` leads to the last publication."""
    made = []
    for attempt, number in places:
        before = folder.publication(attempt, number - 1)
        is_jump = number > 1 and not before.exists()
        if is_jump:
            before.mkdir(parents=True)
        made.append(publish(folder, attempt, FILES, {"at": f"{attempt}/{number}"}))
        if is_jump:
            before.rmdir()
    assert list(places) == [each.identity for each in made]
    return made


def half_write(folder: PipelineFolder, attempt: int, number: int) -> Path:
    """Leave the files of a process that was killed before writing the manifest."""
    path = folder.publication(attempt, number)
    path.mkdir(parents=True)
    (path / "metrics.json").write_bytes(b"{")
    return path


def spoil(published: Publication) -> None:
    (published.path / MANIFEST).write_bytes(b'{"format": 1, "att')


def resolved(folder: PipelineFolder) -> PublicationId | None:
    found = resolve(folder)
    return found.identity if found else None


def complete_places(folder: PipelineFolder) -> list[PublicationId]:
    """Return the complete publications, found by a scan of all folders."""
    found = []
    for path in folder.attempts.glob("[0-9]*/p[0-9]*"):
        place = PublicationId(int(path.parent.name), int(path.name[1:]))
        if folder.publication(*place) == path and read_publication(folder, place):
            found.append(place)
    return sorted(found)


def list_tree(path: Path) -> dict[str, object]:
    """Return files with their contents, links with their targets, and folders with None."""
    return {
        str(each.relative_to(path)): (
            f"-> {each.readlink()}"
            if each.is_symlink()
            else None
            if each.is_dir()
            else each.read_bytes()
        )
        for each in path.rglob("*")
    }
