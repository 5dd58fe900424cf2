"""The pipelines that a command line names, in the order in which they run.

A command line names files, or single pipelines in a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click

from strandline.ledger.access.session import opened_to_read
from strandline.ledger.checks.completeness import find_gaps
from strandline.ledger.output_root import read_output_root
from strandline.plan.errors import StrandlineError
from strandline.run.insight.records import find_last
from strandline.run.manifest.order import order_pipelines
from strandline.run.manifest.yaml_file import list_pipelines, read_pipeline
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.remote import open_outputs
from strandline_api.objects.pipeline import CurationPipeline


class Target(NamedTuple):
    """A requested pipeline.

    Attributes:
        file: name of the pipeline on the command line: a file, or `FILE#NAME`.
    """

    file: Path
    pipeline: CurationPipeline

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self.pipeline.metadata.name


def list_targets(
    files: Sequence[Path], settings: Sequence[str], *, is_strict: bool = False
) -> list[Target]:
    """Return the pipelines of some files, in file order.

    Raises:
        SpecError: a file or pipeline is invalid.
        UsageError: the command line has settings, but more than one pipeline.
    """
    paths = [path for file in files for path in list_pipelines(file)]
    if settings and len(paths) > 1:
        named = ", ".join(map(str, paths))
        msg = f"--set changes one pipeline; name one of these {len(paths)}: {named}"
        raise click.UsageError(msg)
    return [
        Target(path, read_pipeline(path, settings, is_strict=is_strict).pipeline) for path in paths
    ]


def order_targets(targets: Sequence[Target], volume: Path | None) -> list[Target]:
    """Return the pipelines in an order in which they can run.

    Args:
        volume: folder with the results of pipelines that are not listed. If None, pipelines that
            are not listed count as complete.

    Raises:
        SpecError: no order is possible; see `order_pipelines`.
    """
    # Look pipelines up by identity, because names may be duplicates: only `order_pipelines` rejects
    # duplicate names.
    found = {id(target.pipeline): target for target in targets}
    pipelines = [target.pipeline for target in targets]
    ordered = order_pipelines(pipelines, partial(_find_gap, volume))
    return [found[id(pipeline)] for pipeline in ordered]


def _find_gap(volume: Path | None, namespace: str, name: str, run: str | None) -> str | None:
    """Return why a pipeline on the volume has not completed, as `FindGap` requires.

    Return None if the pipeline is complete, and an empty string if the reason is unknown.
    """
    if volume is None:
        return None
    folder = PipelineFolder.on_volume(volume, namespace, name)
    last = find_last(folder)
    # The pipeline never ran, or not in this run.
    if last is None or run not in {None, last.run}:
        return ""
    # An attempt without an outcome is still running, or was lost.
    if last.outcome is None or last.outcome.exit_code:
        return "" if last.outcome is None else last.outcome.message
    try:
        with opened_to_read(folder.ledger) as store:
            outputs = open_outputs(read_output_root(store) or str(folder.output))
            # An exit code of 0 is not enough: outputs can disappear after the run.
            return next(find_gaps(store, outputs).list_sentences(), None)
    except StrandlineError as error:
        return str(error)
