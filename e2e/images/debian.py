"""Installs Debian packages and builds a base image from Debian if no registry is reachable.

This module must not depend on the images built on that base.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import TextIO

from images.errors import ImagesError
from images.programs import run_logged
from images.tools import Tool, find_tool

SUITE = "bookworm"
INCLUDED = ("ca-certificates", "procps", "python3", "python3-venv")
# Lists and logs change daily. Device files belong to the machine that runs the image.
LEFT_OUT = ("var/cache/apt/*", "var/cache/ldconfig/aux-cache", "var/lib/apt/lists/*", "var/log/*")
MOUNTED = ("dev/*", "proc/*", "sys/*", "tmp/*", "run/*")


def need_tool(cache: Path, log: Path, out: TextIO) -> Tool:
    """Return a program that builds images. On Debian, install buildah if running as root.

    Raises:
        ImagesError: if no program is available or can be installed.
    """
    tool = find_tool(cache / "buildah")
    if tool is None:
        install("buildah", log, out)
        tool = find_tool(cache / "buildah")
    if tool is None:
        raise ImagesError("buildah was installed and does not work here")
    return tool


def install(package: str, log: Path, out: TextIO) -> None:
    """Install a Debian package.

    Raises:
        ImagesError: if installing is not allowed here, or it failed.
    """
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise ImagesError(f"there is no {package}; install it, and run this as root")
    print(f"installing {package} with apt-get", file=out, flush=True)
    failure = f"{package} could not be installed"
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], ["install", "--yes", "--no-install-recommends", package]):
        run_logged(["apt-get", *words], log, failure=failure, environment=environment)


def need_base(tool: Tool, cache: Path, log: Path, out: TextIO) -> str:
    """Return the name of the local base image. The first call builds the image."""
    recipe = " ".join((SUITE, *INCLUDED, *LEFT_OUT, *MOUNTED))
    digest = hashlib.sha256(recipe.encode()).hexdigest()[:12]
    name = tool.name_local(f"strandline-base:{digest}")
    if tool.has(name):
        return name
    rootfs = cache / f"base-{digest}" / "rootfs.tar"
    if not rootfs.is_file():
        _make_rootfs(rootfs, log, out)
    tool.take_in(rootfs, name, log)
    return name


def _make_rootfs(rootfs: Path, log: Path, out: TextIO) -> None:
    if os.geteuid() != 0:
        raise ImagesError("BASE=local needs root: debootstrap makes a root file system")
    if shutil.which("debootstrap") is None:
        install("debootstrap", log, out)
    print("making a base image with debootstrap; one to three minutes", file=out, flush=True)
    rootfs.parent.mkdir(parents=True, exist_ok=True)
    folder, packed = rootfs.with_name("rootfs.new"), rootfs.with_name("rootfs.tar.new")
    shutil.rmtree(folder, ignore_errors=True)
    included = f"--include={','.join(INCLUDED)}"
    command = ["debootstrap", "--variant=minbase", included, SUITE, str(folder)]
    run_logged(command, log, failure="debootstrap failed")
    skipped = [f"--exclude=./{pattern}" for pattern in (*LEFT_OUT, *MOUNTED)]
    order = ["--sort=name", "--numeric-owner"]
    pack = ["tar", "-C", str(folder), *order, *skipped, "-cf", str(packed), "."]
    run_logged(pack, log, failure="the root file system could not be packed")
    packed.rename(rootfs)
    shutil.rmtree(folder)
