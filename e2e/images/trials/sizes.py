"""Reads the sizes of an image's layers from its archive."""

from __future__ import annotations

import gzip
import json
import tarfile
from pathlib import Path
from typing import Any

MIB = 2**20
CHUNK = 2**20
GZIP = b"\x1f\x8b"


def describe_sizes(title: str, archive: Path) -> str:
    """Describe the compressed and unpacked size of each layer in lines, base layers first."""
    lines = [f"{title}: {archive.stat().st_size / MIB:.1f} MiB as an archive"]
    with tarfile.open(archive) as content:
        manifest = read_manifest(content)
        for number, layer in enumerate(manifest["layers"], start=1):
            unpacked = _measure(content, layer["digest"])
            sizes = f"{layer['size'] / MIB:7.1f} MiB, {unpacked / MIB:7.1f} MiB unpacked"
            lines.append(f"  layer {number}: {sizes}")
    return "\n".join(lines)


def read_manifest(archive: tarfile.TarFile) -> Any:
    """Return the manifest of the only image in an OCI archive."""
    index = json.loads(_read(archive, "index.json"))
    return json.loads(_read(archive, find_blob(index["manifests"][0]["digest"])))


def read_configuration(archive: Path) -> Any:
    """Return the image's run configuration: `Env`, `User`, `Labels`, and so on."""
    with tarfile.open(archive) as content:
        digest = read_manifest(content)["config"]["digest"]
        return json.loads(_read(content, find_blob(digest)))["config"]


def _measure(archive: tarfile.TarFile, digest: str) -> int:
    stream = archive.extractfile(find_blob(digest))
    assert stream is not None
    total = 0
    packed = stream.read(len(GZIP)) == GZIP
    stream.seek(0)
    with gzip.GzipFile(fileobj=stream) if packed else stream as content:
        while chunk := content.read(CHUNK):
            total += len(chunk)
    return total


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    stream = archive.extractfile(name)
    assert stream is not None
    return stream.read()


def find_blob(digest: str) -> str:
    """Return the path of a blob in an archive."""
    return f"blobs/{digest.replace(':', '/')}"
