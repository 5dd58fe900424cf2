"""Files of models: how parameters name them, and where a worker finds them or its node's copy.

It knows paths and digests, nothing of what a model was made for or what runs it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Self

from pydantic import Field, PrivateAttr, model_validator

from strandline.plan.stage import Stage
from strandline.stages.sources.opening import digest_input, open_binary
from strandline.stages.sources.places.globs import expand_placeholder, is_url

_CHUNK = 1 << 20


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
    folder = Path(tempfile.gettempdir()) / f"strandline-models-{os.getuid()}"
    copy = folder / f"{digest}{suffix}"
    if copy.is_file():
        return copy
    folder.mkdir(mode=0o700, exist_ok=True)
    state = blake2b(digest_size=16)
    with tempfile.NamedTemporaryFile(dir=folder, suffix=".part", delete=False) as part:
        with open_binary(path) as file:
            while chunk := file.read(_CHUNK):
                state.update(chunk)
                part.write(chunk)
        if state.hexdigest() != digest:
            Path(part.name).unlink()
            msg = f"{path}: the model was changed under the run; run it again"
            raise ModelError(msg)
    Path(part.name).rename(copy)  # whole or absent, also where two begin at once
    return copy
