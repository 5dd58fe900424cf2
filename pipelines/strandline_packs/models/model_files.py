"""Finds model files that parameters name, and copies files from URLs to the node.

The module handles paths and digests. It must not depend on the purpose of a model or its runtime.
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
    """Interface of a hash object."""

    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


class ModelError(Exception):
    """Raised if a model is unusable for its purpose."""


class ModelFileParams(Stage.Params):
    """Configures the model file.

    Planning the pipeline digests this file and all files that `list_places` names.
    """

    model: str = Field(
        min_length=1,
        description="File of the model on a disk of the workers, or a URL that each node copies "
        "once; `{stdlib}` and `{site-packages}` mean this interpreter's folders. Its "
        "content is part of the fingerprint.",
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
        """Digests of the files at planning time, by parameter."""
        return dict(self._digests)

    @property
    def digest(self) -> str:
        """Digest of the model at planning time."""
        return self._digests["model"]

    def list_places(self) -> Iterable[tuple[str, str]]:
        """Return the location of the model."""
        return [("model", self.model)]


def find_model(path: str, digest: str, suffix: str = "") -> Path:
    """Return the path of a model file, or the path of this node's copy if `path` is a URL.

    Raises:
        ModelError: the file is missing, or the file at a URL changed since planning.
        OSError: the file can't be read, or the copy can't be written.
    """
    if is_url(path):
        return copy_model(path, digest, suffix)
    file = Path(expand_placeholder(path))
    if not file.is_file():
        msg = f"{path}: no such file; the model must be on a disk of the worker"
        raise ModelError(msg)
    return file


def copy_model(path: str, digest: str, suffix: str) -> Path:
    """Return this node's copy of a model, and create the copy if needed.

    Raises:
        ModelError: the model changed since planning.
        OSError: the model can't be read, or the copy can't be written.
    """
    state = blake2b(digest_size=16)
    copy = _copy_once(path, _find_copies() / f"{digest}{suffix}", state, digest)
    if copy is None:
        msg = f"{path}: the model has changed during the run; run the pipeline again"
        raise ModelError(msg)
    return copy


def copy_weights(url: str, digest: str) -> Path:
    """Return this node's copy of weights, which the pipeline identifies by their SHA-256.

    Raises:
        ModelError: the weights have another digest.
        OSError: the weights can't be read, or the copy can't be written.
    """
    state = sha256()
    suffix = PurePosixPath(urlsplit(url).path).suffix
    copy = _copy_once(url, _find_copies() / f"{digest}{suffix}", state, digest)
    if copy is None:
        msg = f"{url}: its SHA-256 is {state.hexdigest()}, not {digest}"
        raise ModelError(msg)
    return copy


def _find_copies() -> Path:
    # A folder for a single user: in a shared folder, another user could replace copies.
    folder = Path(tempfile.gettempdir()) / f"strandline-models-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _copy_once(path: str, copy: Path, state: _Digest, digest: str) -> Path | None:
    """Return the copy of a file, or None if the file has another digest.

    If several workers start at the same time, one copies the file, and the others wait.
    """
    if copy.is_file():
        return copy
    with copy.with_suffix(".lock").open("ab") as lock, locking(lock.fileno(), fcntl.LOCK_EX):
        if copy.is_file():  # copied by the previous holder of the lock
            return copy
        # Same folder as the copy, because a rename must stay within a file system.
        with tempfile.NamedTemporaryFile(dir=copy.parent, suffix=".part", delete=False) as part:
            try:
                with open_binary(path) as file:
                    while chunk := file.read(_CHUNK):
                        state.update(chunk)
                        part.write(chunk)
            except BaseException:  # leave no partial copy: weights may fill a disk
                Path(part.name).unlink()
                raise
        if state.hexdigest() != digest:
            Path(part.name).unlink()
            return None
        Path(part.name).rename(copy)  # atomic: a crash leaves no partial copy
    return copy
