"""`python -m images`: build the images, tell their sizes, try them."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

from images.build import need_images
from images.errors import ImagesError
from images.names import BASE, TARGETS, find_images
from images.sizes import tell_sizes
from images.trial import try_images

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str] | None = None) -> None:
    """Do what the arguments ask for; exit code 1 and a sentence where that fails."""
    parser = argparse.ArgumentParser(prog="images", description=__doc__, allow_abbrev=False)
    parser.add_argument("action", choices=["build", "sizes", "trial"])
    text = f"the image to build on (default: {BASE}); local: made here with debootstrap"
    parser.add_argument("--base", default=BASE, help=text)
    given = parser.parse_args(arguments)
    try:
        act(given.action, given.base or BASE)
    except ImagesError as error:
        sys.exit(f"strandline: {error}")


def act(action: str, base: str) -> None:
    """Build; then print where the images are, how large they are, or how they behave."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    images = find_images(ROOT, cache, base, platform.machine())
    need_images(ROOT, images, sys.stderr)
    if action == "trial":
        try_images(ROOT, images, sys.stderr)
        return
    for target in TARGETS:
        if action == "sizes":
            print(tell_sizes(target, images.find_archive(target)))
        else:
            print(f"{images.spell_name(target)} {images.find_archive(target)}")


if __name__ == "__main__":
    main()
