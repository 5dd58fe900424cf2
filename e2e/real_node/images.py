"""Packs an image from a few files without an image builder.

The same files give the same bytes. This module must not depend on the program that loads the
archive.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence

EXECUTABLE = 0o755


def pack_image(name: str, files: Mapping[str, bytes], command: Sequence[str]) -> bytes:
    """Pack an image with one layer, as an archive for `docker load` and `ctr import`.

    Args:
        name: name of the image with its tag.
        files: executable files by their paths in the image, without a leading slash.
        command: default command of a container.
    """
    layer = pack_tar(files)
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": list(command), "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    return pack_tar(
        {
            "config.json": json.dumps(config).encode(),
            "layer.tar": layer,
            "manifest.json": json.dumps(manifest).encode(),
        }
    )


def pack_tar(files: Mapping[str, bytes]) -> bytes:
    """Pack a tar archive of executable files owned by root, with timestamp 0."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), EXECUTABLE
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
