"""An image out of a few files, without a tool that builds images.

The same files give the same bytes. This room must not know what takes the archive in.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence

EXECUTABLE = 0o755


def pack_image(name: str, files: Mapping[str, bytes], command: Sequence[str]) -> bytes:
    """Pack an image of one layer, as an archive that `docker load` and `ctr import` know.

    Args:
        name: with its tag.
        files: by their paths in the image, without a leading slash; each can be executed.
        command: what a container runs if it is not told.
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
    """Pack a tar archive of executable files that belong to root and have no time."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), EXECUTABLE
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
