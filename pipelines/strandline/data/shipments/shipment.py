"""A data set that is pushed in one piece: files by name and digest, run, owner, and refusals. Pure.

It must not know where anything goes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
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
# Properties of a commit.
REVISION, PIPELINE, LEDGER = "strandline.revision", "strandline.pipeline", "strandline.ledger"


class ShippedFile(NamedTuple):
    """A file that counts.

    Attributes:
        name: below the root of the outputs, with `/` between its parts.
        size: bytes.
        digest: blake2b-128 of them.
        rows: rows that count; of files that belong together the first one has them all.
    """

    name: str
    size: int
    digest: bytes
    rows: int


class Author(NamedTuple):
    """The ledger that pushes.

    Attributes:
        pipeline: namespace and name.
        ledger: its id; empty where there is none yet.
        takes_over: what another ledger of the pipeline has pushed is its, too.
    """

    pipeline: str
    ledger: str
    takes_over: bool = False


@dataclass(frozen=True)
class Shipment:
    """A data set as a complete run has left it.

    Attributes:
        pipeline: namespace and name.
        run: the run's name.
        fingerprint: of stages and parameters.
        ledger: the id of the ledger that counts the files.
        attempt: the last one.
        files: by name.
        card: README of the data set.
        index: what readers of the files' format begin with; None: they need nothing.
        takes_over: see `Author`.
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

    @property
    def author(self) -> Author:
        """The ledger that pushes it."""
        return Author(self.pipeline, self.ledger, self.takes_over)

    @cached_property
    def revision(self) -> str:
        """A digest of the fingerprint and of all files: the same data set has the same one."""
        facts = [self.fingerprint, [[*each[:2], each.digest.hex()] for each in self.files]]
        text = json.dumps(facts, separators=(",", ":"))
        return blake2b(text.encode(), digest_size=REVISION_BYTES).hexdigest()

    @property
    def extras(self) -> dict[str, bytes]:
        """Files beside those that count: card, index and manifest, in the order of writing."""
        index = {} if self.index is None else {INDEX: self.index}
        return {CARD: self.card} | index | {MANIFEST: self.render_manifest()}

    @property
    def rows(self) -> int:
        """Rows of all files."""
        return sum(file.rows for file in self.files)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def properties(self) -> dict[str, str]:
        """The run that made it, as a table or a commit may carry it."""
        return {
            REVISION: self.revision,
            "strandline.fingerprint": self.fingerprint,
            LEDGER: self.ledger,
            "strandline.attempt": str(self.attempt),
            PIPELINE: self.pipeline,
            "strandline.run": self.run,
        }

    def render_manifest(self) -> bytes:
        """Render what proves the copy: every file with its bytes and digest."""
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
            "files": {
                each.name: {"size": each.size, "digest": each.digest.hex(), "rows": each.rows}
                for each in self.files
            },
        }
        return (json.dumps(facts, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "replace")


def list_names(manifest: bytes) -> set[str]:
    """Return the names of the files in a manifest; none where it is not one of ours."""
    return set(_read(manifest).get("files", {}))


def read_properties(manifest: bytes) -> dict[str, object] | None:
    """Return a manifest's pipeline and ledger, by names of properties; None: it is no manifest."""
    facts = _read(manifest)
    if "pipeline" not in facts:
        return None
    return {PIPELINE: facts["pipeline"], LEDGER: facts.get("ledger")}


def find_revision(manifest: bytes) -> str | None:
    """Return the revision that a manifest is of; None where it is not one of ours."""
    found = _read(manifest).get("revision")
    return found if isinstance(found, str) else None


def _read(manifest: bytes) -> dict[str, Any]:
    try:
        content = json.loads(manifest)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


class PushResult(NamedTuple):
    """What a push has come to.

    Attributes:
        target: where the data set now is, for people.
        revision: of the data set.
        is_new: it was not there before.
        files: that were copied or uploaded now.
    """

    target: str
    revision: str
    is_new: bool
    files: int

    def describe(self) -> str:
        """Return which revision is where, in words."""
        return f"revision {self.revision} is at {self.target}"


_SHORT = 12  # characters of an id that are shown


def require_ours(
    target: str, author: Author, properties: Mapping[str, object] | None, what: str = "table"
) -> None:
    """Refuse a target that another has written.

    Args:
        properties: of the last commit of ours; None: there is none.
        what: the target is.

    Raises:
        TargetRefusedError: it is another's.
    """
    found = properties or {}
    owner, ledger = found.get(PIPELINE), found.get(LEDGER)
    if owner != author.pipeline:
        whose = f"the pipeline {owner}" if owner else "somebody else"
        raise TargetRefusedError(
            f"{target}: {whose} has written this {what}, and a push replaces all rows of one; name "
            f"another {what}"
        )
    # Releases before this one wrote the ledger too; one that made nothing has an empty one.
    if author.takes_over or not ledger or ledger == author.ledger:
        return
    raise TargetRefusedError(
        f"{target}: another ledger of this pipeline, {str(ledger)[:_SHORT]}, has written this "
        f"{what}, and a push replaces all rows of one; for a trial name another {what}, and where "
        "that ledger is gone for good run without `publish.to`, and push there with `--take-over`"
    )


class UnfitForPushError(StrandlineError):
    """The folder to push is not the complete output of a run."""

    exit_code = ExitCode.LEDGER_MISMATCH


class RequirementsError(StrandlineError):
    """The last run did not meet what the pipeline requires before publishing."""

    exit_code = ExitCode.REQUIREMENTS_NOT_MET


class BadTargetError(StrandlineError):
    """The target is written in a way that names none."""

    exit_code = ExitCode.BAD_SPEC


class TargetRefusedError(StrandlineError):
    """The target does not take the data set."""

    exit_code = ExitCode.VOLUME_UNUSABLE
