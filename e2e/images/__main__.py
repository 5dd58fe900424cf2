"""Builds the images, prints their sizes, or tests them: `python -m images`."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from images.build import need_images
from images.errors import ImagesError
from images.history import LAST_RELEASE, need_sources
from images.names import BASE, TARGETS, find_images
from images.trials.sizes import describe_sizes
from images.trials.trial import try_images

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the requested command. On an error, print a sentence and return exit code 1."""
    parser = argparse.ArgumentParser(prog="images", description=__doc__, allow_abbrev=False)
    parser.add_argument("action", choices=["build", "sizes", "trial"])
    text = f"the image to build on (default: {BASE}); local: made here with debootstrap"
    parser.add_argument("--base", default=BASE, help=text)
    text = "not today's images: those of the release before, from the repository's history"
    parser.add_argument("--last-release", action="store_true", help=text)
    given = parser.parse_args(arguments)
    try:
        act(given.action, given.base or BASE, is_last_release=given.last_release)
    except ImagesError as error:
        sys.exit(f"strandline: {error}")


def act(action: str, base: str, *, is_last_release: bool = False) -> None:
    """Build the images, then print their paths, their sizes, or their test results."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    root = need_sources(ROOT, LAST_RELEASE, cache / "strandline") if is_last_release else ROOT
    images = find_images(root, cache, base, platform.machine())
    need_images(root, images, sys.stderr)
    if action == "trial":
        try_images(root, images, sys.stderr)
        return
    for target in TARGETS:
        if action == "sizes":
            print(describe_sizes(target, images.find_archive(target)))
        else:
            print(f"{images.format_name(target)} {images.find_archive(target)}")


if __name__ == "__main__":
    main()
