"""The root file system of an image, laid out from its archive.

It must not know what is done with it, nor who made the archive.
"""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

from images.sizes import read_manifest, spell_blob

GONE = ".wh."


def unpack(archive: Path, root: Path) -> None:
    """Lay out the layers of an archive under `root`, with the owners they have; needs root."""
    with tarfile.open(archive) as content:
        for layer in read_manifest(content)["layers"]:
            stream = content.extractfile(spell_blob(layer["digest"]))
            assert stream is not None
            with tarfile.open(fileobj=stream) as files:
                _lay_out(files, root)


def _lay_out(files: tarfile.TarFile, root: Path) -> None:
    for entry in files:
        place = root / entry.name
        if place.name.startswith(GONE):
            _remove(place.with_name(place.name.removeprefix(GONE)))
            continue
        if place.is_symlink() or (place.exists() and not (entry.isdir() and place.is_dir())):
            _remove(place)
        files.extract(entry, root, numeric_owner=True, filter="fully_trusted")


def _remove(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
