"""Installs the previous release as users installed it: its chart, its CRDs, and its images.

The files come from the repository's history. This module must not depend on the tests that use it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from images.errors import ImagesError
from images.history import LAST_RELEASE, need_sources
from images.names import TARGETS
from proving_ground.cluster.kube import Json
from proving_ground.installation.chart import (
    HASTE,
    ROOT,
    Installation,
    find_built,
    find_cache,
    name_images,
)

BUILD = 'make images ARGS="build --last-release"'
# The chart sets no Ray version. If it is missing, KubeRay probes pods with a program that the image
# lacks.
RAY_VERSION = "2.60.0"


@dataclass(frozen=True, slots=True)
class ReleaseBefore:
    """The previous release's chart and its values.

    Attributes:
        chart: folder of the chart.
        values: values of the chart.
    """

    chart: Path
    values: Mapping[str, object]

    def install(self, installation: Installation) -> None:
        """Replace the current installation, including its CRDs, and wait until it is ready."""
        installation.upgrade(self.chart, **self.values)

    @contextmanager
    def installed(self, installation: Installation) -> Iterator[None]:
        """Install the previous release for the duration of the block, then the current code."""
        try:
            self.install(installation)
            yield
        finally:
            installation.upgrade()


def find_release_before(installation: Installation) -> ReleaseBefore:
    """Import the previous release's images into the node, and return the release.

    Raises:
        ImagesError: if its sources or its images are missing.
    """
    sources = need_sources(ROOT, LAST_RELEASE, find_cache() / "strandline")
    images = find_built(sources)
    if not images.complete:
        raise ImagesError(f"there are no images of the last release in {images.folder}: {BUILD}")
    if installation.node is not None:
        for target in TARGETS:
            installation.node.import_image(images.find_archive(target))
    chart = sources / "charts" / "strandline"
    return ReleaseBefore(chart, {"settings": choose_settings(chart), **name_images(images)})


def choose_settings(chart: Path) -> Json:
    """Return those of the scenarios' settings that the previous chart supports."""
    schema = json.loads((chart / "values.schema.json").read_text(encoding="utf-8"))
    known = schema["properties"]["settings"]["properties"]
    wanted: Json = {**HASTE, "rayVersion": RAY_VERSION}
    return {name: value for name, value in wanted.items() if name in known}
