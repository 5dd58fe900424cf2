"""Unpacks the root file system of an image from its archive.

This module must not depend on the use of the files or on the tool that made the archive.
"""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

from images.trials.sizes import find_blob, read_manifest

GONE = ".wh."


def unpack(archive: Path, root: Path) -> None:
    """Unpack the layers of an archive under `root` and keep file owners. Must run as root."""
    with tarfile.open(archive) as content:
        for layer in read_manifest(content)["layers"]:
            stream = content.extractfile(find_blob(layer["digest"]))
            assert stream is not None
            with tarfile.open(fileobj=stream) as files:
                _lay_out(files, root)


def _lay_out(files: tarfile.TarFile, root: Path) -> None:
    for entry in files:
        location = root / entry.name
        if location.name.startswith(GONE):
            _remove(location.with_name(location.name.removeprefix(GONE)))
            continue
        if location.is_symlink() or (
            location.exists() and not (entry.isdir() and location.is_dir())
        ):
            _remove(location)
        files.extract(entry, root, numeric_owner=True, filter="fully_trusted")


def _remove(location: Path) -> None:
    if location.is_dir() and not location.is_symlink():
        shutil.rmtree(location)
    else:
        location.unlink(missing_ok=True)
