"""Writes archives for tests, of any kind and with any content."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

FILES = {"mystages.py": b"MIN = 5\n", "deep/er/other.py": b""}


def write_zip(path: Path, files: Mapping[str, bytes] = FILES, link: str = "") -> str:
    """Write a zip file, and return its digest."""
    with zipfile.ZipFile(path, "w") as packed:
        for name, content in files.items():
            packed.writestr(name, content)
        if link:
            info = zipfile.ZipInfo(link)
            info.external_attr = (stat.S_IFLNK | 0o777) << 16
            packed.writestr(info, "/etc")
    return digest(path)


def write_tar(
    path: Path, files: Mapping[str, bytes] = FILES, *, mode: str = "w:gz", kind: bytes = b""
) -> str:
    """Write a tar file, and return its digest.

    Args:
        kind: type of an additional member `odd`, such as `tarfile.SYMTYPE`.
    """
    with tarfile.open(path, mode) as tape:  # type: ignore[call-overload]
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tape.addfile(info, io.BytesIO(content))
        if kind:
            info = tarfile.TarInfo("odd")
            info.type, info.linkname = kind, "mystages.py"
            tape.addfile(info)
    return digest(path)


def digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def read_all(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files below a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
