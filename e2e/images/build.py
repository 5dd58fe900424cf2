"""Builds both images from source into archives, once per state of the sources.

An interrupted build leaves no archive under its final name; concurrent builds wait for each other.
This module must not depend on the build tool.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from images.debian import need_base, need_tool
from images.errors import ImagesError
from images.names import CONTEXT, LOCAL, RECIPE, TARGETS, Images, list_sources
from images.pip_settings import find_bundle, render_configuration
from images.programs import read_output
from images.tools import Recipe, Tool

KEPT = 4


def need_images(root: Path, images: Images, out: TextIO) -> None:
    """Build the images from the sources under `root`, unless their archives exist.

    Raises:
        ImagesError: if no tool is available, or a step failed.
    """
    if images.complete:
        os.utime(images.folder)  # mark images in use as recent, so that cleanup keeps them
        return
    images.folder.mkdir(parents=True, exist_ok=True)
    with _hold(images.folder.parent / "images.lock"):
        if not images.complete:
            _build(root, images, out)


def _build(root: Path, images: Images, out: TextIO) -> None:
    log = images.folder / "build.log"
    log.unlink(missing_ok=True)
    cache = images.folder.parent
    tool = need_tool(cache, log, out)
    tool.sweep()
    parent = images.base
    if parent == LOCAL:
        parent = need_base(tool, cache, log, out)
    seconds, revision = read_revision(root)
    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    arguments = {
        "BASE": parent,
        "REVISION": revision,
        "SOURCE_DATE_EPOCH": str(seconds),
        "VERSION": version,
    }
    with _write_secrets() as secrets, _copy_sources(root, images) as context:
        for target in TARGETS:
            print(
                f"building {images.format_name(target)} with {tool.program}", file=out, flush=True
            )
            name = tool.name_local(images.format_name(target))
            tool.build(Recipe(context, target, name, seconds, arguments, secrets), log)
            _keep(tool, images, target, log)
    _drop_old(tool, images)


def _keep(tool: Tool, images: Images, target: str, log: Path) -> None:
    archive = images.find_archive(target)
    written = archive.with_suffix(".tar.new")
    written.unlink(missing_ok=True)
    name = tool.name_local(images.format_name(target))
    tool.save(name, images.format_reference(target), written, log)
    written.rename(archive)


def read_revision(root: Path) -> tuple[int, str]:
    """Return the time and the commit of the sources. The commit is empty if files have changed.

    SOURCE_DATE_EPOCH overrides the commit's time. If git is not available, the time is 0.
    """
    locations = ["--", *RECIPE, *CONTEXT]
    log = read_output(["git", "log", "-1", "--format=%ct %H", *locations], folder=root) or "0 "
    changed = read_output(["git", "status", "--porcelain", *locations], folder=root)
    committed, _, revision = log.partition(" ")
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or committed)
    return seconds, "" if changed else revision


def _drop_old(tool: Tool, images: Images) -> None:
    """Remove all but the newest images."""
    folders = [path for path in images.folder.parent.glob("images-*") if path.is_dir()]
    folders.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for folder in folders[KEPT:]:
        old = replace(images, tag=folder.name.removeprefix("images-"), folder=folder)
        for target in TARGETS:
            tool.forget(tool.name_local(old.format_name(target)))
        shutil.rmtree(folder)


@contextmanager
def _copy_sources(root: Path, images: Images) -> Iterator[Path]:
    """Copy the sources, so that a concurrent edit does not change the images."""
    with tempfile.TemporaryDirectory() as folder:
        for path in list_sources(root):
            location = Path(folder) / path
            location.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / path, location)
        if not images.match(Path(folder)):
            raise ImagesError("the sources have just changed; run this again")
        yield Path(folder)


@contextmanager
def _write_secrets() -> Iterator[dict[str, Path]]:
    """Provide temporary files with this machine's pip settings and certificates."""
    listing = read_output([sys.executable, "-m", "pip", "config", "list"]) or ""
    bundle = find_bundle(listing, os.environ)
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "pip.conf"
        settings.write_text(render_configuration(listing))
        secrets = {"pip": settings}
        if bundle is not None and Path(bundle).is_file():
            secrets["ca"] = Path(bundle)
        yield secrets


@contextmanager
def _hold(lock: Path) -> Iterator[None]:
    with lock.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
