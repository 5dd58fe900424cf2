"""Names the images and their archives by a hash of all build inputs.

This module must not depend on how an image is built.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TARGETS = ("operator", "runtime")
REGISTRY = "docker.io"
BASE = "docker.io/library/debian:bookworm-slim"
LOCAL = "local"
# Paths that the Dockerfile copies. The .dockerignore file lists the same paths.
CONTEXT = (
    "LICENSE",
    "README.md",
    "constraints.txt",
    "crds/strandline_api",
    "e2e/images/inside",
    "operator/strandline_operator",
    "pipelines/strandline",
    "pipelines/strandline_packs",
    "pyproject.toml",
)
RECIPE = ("Dockerfile", ".dockerignore")
DIGITS = 12


@dataclass(frozen=True, slots=True)
class Images:
    """Both images of one state of the sources.

    Attributes:
        tag: tag of both images.
        folder: folder of the archives, which have OCI layout.
        base: base image, or `local`.
        machine: target architecture, such as `x86_64`.
    """

    tag: str
    folder: Path
    base: str
    machine: str

    def match(self, root: Path) -> bool:
        """Return whether these images were built from the sources under `root`."""
        return hash_sources(root, self.base, self.machine)[:DIGITS] == self.tag

    def format_name(self, target: str) -> str:
        """Return the image name that pods use: `strandline/operator:TAG`."""
        return f"strandline/{target}:{self.tag}"

    def format_reference(self, target: str) -> str:
        """Return the image name with its registry, as container runtimes store it."""
        return f"{REGISTRY}/{self.format_name(target)}"

    def find_archive(self, target: str) -> Path:
        """Return the path of an image's archive, which may not exist yet."""
        return self.folder / f"{target}.tar"

    @property
    def complete(self) -> bool:
        """Whether both archives exist."""
        return all(self.find_archive(target).is_file() for target in TARGETS)


def find_images(root: Path, cache: Path, base: str, machine: str) -> Images:
    """Return the images of the sources under `root`, even if they are not built yet."""
    tag = hash_sources(root, base, machine)[:DIGITS]
    return Images(tag, cache / "strandline" / f"images-{tag}", base, machine)


def hash_sources(root: Path, base: str, machine: str) -> str:
    """Return a SHA-256 over the names and contents of all inputs, in 64 hexadecimal digits."""
    digest = hashlib.sha256(f"{base}\0{machine}\0".encode())
    for path in list_sources(root):
        content = (root / path).read_bytes()
        digest.update(f"{path.as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def list_sources(root: Path) -> list[Path]:
    """Return the input files, relative to `root` and sorted."""
    found = [path for location in (*RECIPE, *CONTEXT) for path in _walk(root / location)]
    return sorted(path.relative_to(root) for path in found)


def _walk(location: Path) -> Iterator[Path]:
    if location.is_file():
        yield location
        return
    for path in location.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path
