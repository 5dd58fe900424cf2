"""Files of models on the disk of a worker: those that are there, and copies of those that are not.

It knows paths and digests, nothing of what a model was made for or what runs it.
"""

from __future__ import annotations

import os
import tempfile
from hashlib import blake2b
from pathlib import Path

from strandline.stages.sources.globs import expand_placeholder, is_url
from strandline.stages.sources.opening import open_binary

_CHUNK = 1 << 20


class ModelError(Exception):
    """A model that can't be used for what it was named for."""


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
        msg = f"{path}: there is no such file; a model must be on a disk of the worker"
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
