"""Files of models: how parameters name them, and where a worker finds them or its node's copy.

It knows paths and digests, nothing of what a model was made for or what runs it.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterable
from hashlib import blake2b, sha256
from pathlib import Path, PurePosixPath
from typing import Protocol, Self
from urllib.parse import urlsplit

from pydantic import Field, PrivateAttr, model_validator

from strandline.data.files.globs import expand_placeholder, is_url
from strandline.data.files.opening import digest_input, open_binary
from strandline.plan.stages.stage import Stage
from strandline.storage.outputs.disk.own_handles import locking

_CHUNK = 1 << 20


class _Digest(Protocol):
    """What digests bytes."""

    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


class ModelError(Exception):
    """A model that can't be used for what it was named for."""


class ModelFileParams(Stage.Params):
    """Which model. It is read when the pipeline is planned, with all else that a place names."""

    model: str = Field(
        min_length=1,
        description="File of the model on a disk of the workers, or a URL that each node "
        "copies once; `{stdlib}` and `{site-packages}` stand for this interpreter's folders. "
        "What is in it is part of the fingerprint.",
    )
    _digests: dict[str, str] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _digest_files(self) -> Self:
        self._digests = {
            name: digest_input(expand_placeholder(path)) for name, path in self.list_places()
        }
        return self

    @property
    def digests(self) -> dict[str, str]:
        """Of each file that the pipeline was planned with, by its parameter."""
        return dict(self._digests)

    @property
    def digest(self) -> str:
        """Of the model that the pipeline was planned with."""
        return self._digests["model"]

    def list_places(self) -> Iterable[tuple[str, str]]:
        """Return where the model is."""
        return [("model", self.model)]


def find_model(path: str, digest: str, suffix: str = "") -> Path:
    """Return a model's file: the one that `path` names, or this node's copy of what a URL names.

    Raises:
        ModelError: there is none, or a URL's is not the one that the pipeline was planned with.
        OSError: it can't be read, or not written here.
    """
    if is_url(path):
        return copy_model(path, digest, suffix)
    file = Path(expand_placeholder(path))
    if not file.is_file():
        msg = f"{path}: there is no such file; it must be on a disk of the worker"
        raise ModelError(msg)
    return file


def copy_model(path: str, digest: str, suffix: str) -> Path:
    """Return the copy of a model on this node, made where there is none yet.

    Raises:
        ModelError: it is not the one that the pipeline was planned with.
        OSError: it can't be read, or not written here.
    """
    state = blake2b(digest_size=16)
    copy = _copy_once(path, _find_copies() / f"{digest}{suffix}", state, digest)
    if copy is None:
        msg = f"{path}: the model was changed under the run; run it again"
        raise ModelError(msg)
    return copy


def copy_weights(url: str, digest: str) -> Path:
    """Return the copy on this node of weights that were named with their SHA-256.

    Raises:
        ModelError: they are others.
        OSError: they can't be read, or not written here.
    """
    state = sha256()
    suffix = PurePosixPath(urlsplit(url).path).suffix
    copy = _copy_once(url, _find_copies() / f"{digest}{suffix}", state, digest)
    if copy is None:
        msg = f"{url}: its SHA-256 is {state.hexdigest()}, and not {digest}"
        raise ModelError(msg)
    return copy


def _find_copies() -> Path:
    folder = Path(tempfile.gettempdir()) / f"strandline-models-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _copy_once(path: str, copy: Path, state: _Digest, digest: str) -> Path | None:
    """Return the copy of a file; None: its digest is another.

    Of workers that begin at once one copies, and the others wait for it.
    """
    if copy.is_file():
        return copy
    with copy.with_suffix(".lock").open("ab") as lock, locking(lock.fileno(), fcntl.LOCK_EX):
        if copy.is_file():  # by whoever had the lock
            return copy
        with tempfile.NamedTemporaryFile(dir=copy.parent, suffix=".part", delete=False) as part:
            try:
                with open_binary(path) as file:
                    while chunk := file.read(_CHUNK):
                        state.update(chunk)
                        part.write(chunk)
            except BaseException:  # weights may fill a disk
                Path(part.name).unlink()
                raise
        if state.hexdigest() != digest:
            Path(part.name).unlink()
            return None
        Path(part.name).rename(copy)  # whole or absent, also where a process dies
    return copy
