"""Build tools, buildah and docker, behind one interface.

Both build the same Dockerfile. Settings of this machine are passed as secrets.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from images.programs import read_output, run_logged


@dataclass(frozen=True, slots=True)
class Recipe:
    """Inputs of one build.

    Attributes:
        root: folder with the Dockerfile.
        target: stage of the Dockerfile to build.
        name: name of the image.
        seconds: timestamp of the image, in seconds since 1970.
        arguments: build arguments of the Dockerfile.
        secrets: files that the build may read, by their names in the Dockerfile.
    """

    root: Path
    target: str
    name: str
    seconds: int
    arguments: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, Path] = field(default_factory=dict)

    def list_options(self) -> list[str]:
        """Return the options that both programs accept."""
        options = ["--target", self.target, "--tag", self.name]
        for name, value in self.arguments.items():
            options += ["--build-arg", f"{name}={value}"]
        for name, path in self.secrets.items():
            options += ["--secret", f"id={name},src={path}"]
        return [*options, str(self.root)]


class Tool(Protocol):
    """Interface of a program that builds images."""

    program: str

    def name_local(self, name: str) -> str:
        """Return the name of an image without a registry."""

    def has(self, name: str) -> bool:
        """Return whether an image with that name exists."""

    def sweep(self) -> None:
        """Remove leftovers of interrupted builds."""

    def build(self, recipe: Recipe, log: Path) -> None:
        """Build an image."""

    def take_in(self, rootfs: Path, name: str, log: Path) -> None:
        """Import a tar archive of a root file system as an image with one layer."""

    def save(self, name: str, reference: str, archive: Path, log: Path) -> None:
        """Write an image to an archive under a reference."""

    def forget(self, name: str) -> None:
        """Remove an image if it exists."""


class Buildah:
    """Debian's buildah, running as root without a service or a container runtime.

    A separate storage folder keeps leftovers of these builds apart from those of other users.
    """

    program = "buildah"

    def __init__(self, storage: Path) -> None:
        self._command = ["buildah", "--root", str(storage), "--runroot", str(storage / "run")]

    def name_local(self, name: str) -> str:
        """Return the name of an image without a registry."""
        return f"localhost/{name}"

    def has(self, name: str) -> bool:
        """Return whether an image with that name exists."""
        return read_output([*self._command, "inspect", "--type", "image", name]) is not None

    def sweep(self) -> None:
        """Remove leftovers of interrupted builds; finished images stay."""
        read_output([*self._command, "rm", "--all"])

    def build(self, recipe: Recipe, log: Path) -> None:
        """Build an image. Every file in its new layers has the recipe's timestamp."""
        kind = ["--isolation", "chroot", "--layers", "--timestamp", str(recipe.seconds)]
        command = ["build", *kind, *recipe.list_options()]
        self._run(command, log, f"the image {recipe.target} could not be built")

    def take_in(self, rootfs: Path, name: str, log: Path) -> None:
        """Import a tar archive of a root file system as an image with one layer."""
        failure = "the base image could not be made"
        container = "strandline-base"
        self._run(["from", "--name", container, "scratch"], log, failure)
        self._run(["add", container, str(rootfs), "/"], log, failure)
        self._run(["commit", "--timestamp", "0", "--rm", container, name], log, failure)

    def save(self, name: str, reference: str, archive: Path, log: Path) -> None:
        """Write an image to an archive under a reference."""
        command = ["push", "--format", "oci", name, f"oci-archive:{archive}:{reference}"]
        self._run(command, log, f"the image {name} could not be written")

    def forget(self, name: str) -> None:
        """Remove an image if it exists."""
        read_output([*self._command, "rmi", name])

    def _run(self, words: list[str], log: Path, failure: str) -> None:
        run_logged([*self._command, *words], log, failure=failure)


class Docker:
    """A Docker service with BuildKit, 25 or newer."""

    program = "docker"

    def name_local(self, name: str) -> str:
        """Return the name of an image without a registry."""
        return name

    def has(self, name: str) -> bool:
        """Return whether an image with that name exists."""
        return read_output(["docker", "image", "inspect", name]) is not None

    def sweep(self) -> None:
        """Do nothing, because the Docker service cleans up."""

    def build(self, recipe: Recipe, log: Path) -> None:
        """Build an image."""
        environment = os.environ | {
            "SOURCE_DATE_EPOCH": str(recipe.seconds),
            "DOCKER_BUILDKIT": "1",
        }
        command = ["docker", "build", "--progress", "plain", *recipe.list_options()]
        failure = f"the image {recipe.target} could not be built"
        run_logged(command, log, failure=failure, environment=environment)

    def take_in(self, rootfs: Path, name: str, log: Path) -> None:
        """Import a tar archive of a root file system as an image with one layer."""
        command = ["docker", "import", str(rootfs), name]
        run_logged(command, log, failure="the base image could not be made")

    def save(self, name: str, reference: str, archive: Path, log: Path) -> None:
        """Write an image to an archive under a reference."""
        failure = f"the image {name} could not be written"
        run_logged(["docker", "tag", name, reference], log, failure=failure)
        run_logged(["docker", "save", "--output", str(archive), reference], log, failure=failure)

    def forget(self, name: str) -> None:
        """Remove an image if it exists."""
        read_output(["docker", "image", "rm", name])


def find_tool(storage: Path) -> Tool | None:
    """Return the first tool that works on this machine.

    Args:
        storage: folder for the tool's layers.
    """
    if read_output(["buildah", "--version"]) is not None and os.geteuid() == 0:
        return Buildah(storage)
    try:
        answer = subprocess.run(["docker", "info"], capture_output=True, timeout=30, check=False)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return None
    return Docker() if answer.returncode == 0 else None
