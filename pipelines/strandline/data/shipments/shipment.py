"""Data sets that are pushed as a whole: files with names and digests, run, and owner.

This module has no side effects, and must not depend on targets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple

from strandline.plan.errors import StrandlineError
from strandline.storage.outputs.names import CARD, INDEX
from strandline_api.outcome.exit_codes import ExitCode

FORMAT = 1
MANIFEST = "strandline.json"
ALGORITHM = "blake2b-128"
REVISION_BYTES = 16
# Names of commit properties.
REVISION, PIPELINE, LEDGER = "strandline.revision", "strandline.pipeline", "strandline.ledger"


class ShippedFile(NamedTuple):
    """An output file of a finished source.

    Attributes:
        name: path relative to the root of the outputs, with `/` as separator.
        size: size in bytes.
        digest: blake2b-128 digest of the bytes.
        rows: number of rows of finished sources. A companion file has 0 rows, because the main file
            already
            counts the rows.
    """

    name: str
    size: int
    digest: bytes
    rows: int


class Author(NamedTuple):
    """Identifies the ledger that pushes a data set.

    Attributes:
        pipeline: namespace and name.
        ledger: id of the ledger; empty if the ledger has no id yet.
        takes_over: True if pushes of another ledger of the pipeline may be replaced.
    """

    pipeline: str
    ledger: str
    takes_over: bool = False


@dataclass(frozen=True)
class Shipment:
    """A data set that a complete run has produced.

    Attributes:
        pipeline: namespace and name.
        run: name of the run.
        fingerprint: digest of stages and parameters.
        ledger: id of the ledger that lists the files.
        attempt: number of the last attempt.
        files: files, sorted by name.
        card: README of the data set.
        index: index file for readers of the files' format, or None if the format has no index.
        takes_over: see `Author`.
        recipe: parts of the fingerprint, for a comparison with other revisions.
    """

    pipeline: str
    run: str
    fingerprint: str
    ledger: str
    attempt: int
    files: tuple[ShippedFile, ...]
    card: bytes
    index: bytes | None = None
    takes_over: bool = False
    recipe: Mapping[str, Any] = field(default_factory=dict)

    @property
    def author(self) -> Author:
        """The ledger that pushes the data set."""
        return Author(self.pipeline, self.ledger, self.takes_over)

    @cached_property
    def revision(self) -> str:
        """Digest of the fingerprint and all files. Equal data sets have equal digests."""
        facts = [self.fingerprint, [[*each[:2], each.digest.hex()] for each in self.files]]
        text = json.dumps(facts, separators=(",", ":"))
        return blake2b(text.encode(), digest_size=REVISION_BYTES).hexdigest()

    @property
    def extras(self) -> dict[str, bytes]:
        """Additional files in the order of writing: card, index, and manifest."""
        index = {} if self.index is None else {INDEX: self.index}
        return {CARD: self.card} | index | {MANIFEST: self.render_manifest()}

    @property
    def rows(self) -> int:
        """Number of rows in all files."""
        return sum(file.rows for file in self.files)

    @property
    def size(self) -> int:
        """Total size of all files in bytes."""
        return sum(file.size for file in self.files)

    @property
    def properties(self) -> dict[str, str]:
        """Properties of the run, for the metadata of a table or a commit."""
        return {
            REVISION: self.revision,
            "strandline.fingerprint": self.fingerprint,
            LEDGER: self.ledger,
            "strandline.attempt": str(self.attempt),
            PIPELINE: self.pipeline,
            "strandline.run": self.run,
        }

    def render_manifest(self) -> bytes:
        """Render the manifest, whose sizes and digests prove that a copy is complete."""
        facts: dict[str, Any] = {
            "format": FORMAT,
            "revision": self.revision,
            "pipeline": self.pipeline,
            "run": self.run,
            "fingerprint": self.fingerprint,
            "ledger": self.ledger,
            "attempt": self.attempt,
            "rows": self.rows,
            "digests": ALGORITHM,
            "recipe": dict(self.recipe),
            "files": {
                each.name: {"size": each.size, "digest": each.digest.hex(), "rows": each.rows}
                for each in self.files
            },
        }
        return (json.dumps(facts, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "replace")


def list_names(manifest: bytes) -> set[str]:
    """Return the names of the files in a manifest; empty if the bytes are not a manifest."""
    return set(_read(manifest).get("files", {}))


def read_properties(manifest: bytes) -> dict[str, object] | None:
    """Return the pipeline and ledger of a manifest, or None if the manifest is invalid."""
    facts = _read(manifest)
    if "pipeline" not in facts:
        return None
    return {PIPELINE: facts["pipeline"], LEDGER: facts.get("ledger")}


def find_revision(manifest: bytes) -> str | None:
    """Return the revision in a manifest, or None if the bytes are not a manifest."""
    found = _read(manifest).get("revision")
    return found if isinstance(found, str) else None


def _read(manifest: bytes) -> dict[str, Any]:
    try:
        content = json.loads(manifest)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


class PushResult(NamedTuple):
    """The result of a push.

    Attributes:
        target: location of the data set, for messages.
        revision: revision of the data set.
        is_new: True if the target did not have the revision before.
        files: number of files that this push copied or uploaded.
    """

    target: str
    revision: str
    is_new: bool
    files: int

    def describe(self) -> str:
        """Return a clause that names the revision and the target."""
        return f"revision {self.revision} is at {self.target}"


_SHORT = 12  # number of id characters in messages


def require_ours(
    target: str, author: Author, properties: Mapping[str, object] | None, what: str = "table"
) -> None:
    """Raise an error if another pipeline or ledger has written the target.

    Args:
        properties: properties of the last Strandline commit, or None if there is none.
        what: kind of target, for messages.

    Raises:
        TargetRefusedError: if the target belongs to another pipeline or ledger.
    """
    found = properties or {}
    owner, ledger = found.get(PIPELINE), found.get(LEDGER)
    if owner != author.pipeline:
        whose = f"the pipeline {owner}" if owner else "another writer"
        raise TargetRefusedError(
            f"{target}: {whose} has written this {what}, and a push replaces all of its rows; name "
            f"another {what}"
        )
    # Earlier releases recorded the ledger too. The id is empty if the ledger has no outputs.
    if author.takes_over or not ledger or ledger == author.ledger:
        return
    raise TargetRefusedError(
        f"{target}: another ledger of this pipeline, {str(ledger)[:_SHORT]}, has written this "
        f"{what}, and a push replaces all of its rows; for a trial, name another {what}; if that "
        "ledger no longer exists, run without `publish.to`, and push with `--take-over`"
    )


class UnfitForPushError(StrandlineError):
    """Raised if the folder to push is not the complete output of a run."""

    exit_code = ExitCode.LEDGER_MISMATCH


class RequirementsError(StrandlineError):
    """Raised if the last run did not meet the pipeline's requirements for publishing."""

    exit_code = ExitCode.REQUIREMENTS_NOT_MET


class BadTargetError(StrandlineError):
    """Raised if the name of the target has an invalid form."""

    exit_code = ExitCode.BAD_SPEC


class TargetRefusedError(StrandlineError):
    """Raised if the target does not accept the data set."""

    exit_code = ExitCode.VOLUME_UNUSABLE
