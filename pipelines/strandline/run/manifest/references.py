"""Replaces references to other pipelines on the same volume with folders and URLs.

The location of the outputs comes from the other pipeline's ledger, even if its file has changed
since. Before the first run there is no ledger, so the file is used. This module must not depend on
the readers of the references, or on the order of pipelines.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from strandline.ledger.access.session import opened_to_read
from strandline.ledger.output_root import META
from strandline.storage.layout import PipelineFolder
from strandline.storage.outputs.remote import resolve_location
from strandline_api.documents.problems import Problem, SpecError
from strandline_api.objects.pipeline import CurationPipeline
from strandline_api.spec.predecessors import Reference, join_location, replace_references
from strandline_api.spec.work import SourceWork

ARTIFACTS = "artifacts"
Work = TypeVar("Work", bound=SourceWork)


def resolve_references(
    pipeline: CurationPipeline, volume: Path, others: Iterable[CurationPipeline] = ()
) -> CurationPipeline:
    """Return the pipeline with each `{pipeline: NAME}` replaced by folders and URLs.

    Args:
        pipeline: the pipeline as written in its file.
        volume: folder on which the other pipelines run.
        others: pipelines whose files are available; they need not have run yet.

    Raises:
        SpecError: if a referenced pipeline has not run on the volume, and its file is not
            available.
        LedgerError: if a ledger can't be read.
    """
    if not pipeline.spec.references:
        return pipeline
    namespace = pipeline.metadata.namespace
    given = {each.metadata.name: each for each in others if each.metadata.namespace == namespace}
    read = {reference.pipeline for _, reference in pipeline.spec.references}
    folders = {name: PipelineFolder.on_volume(volume, namespace, name) for name in read}
    outputs = {name: _find_output(folders[name], given.get(name)) for name in read}
    problems = tuple(
        _explain_absence(f"spec.{path}", reference, volume)
        for path, reference in pipeline.spec.references
        if outputs[reference.pipeline] is None
    )
    if problems:
        raise SpecError(problems)

    def locate(reference: Reference) -> str:
        output = outputs[reference.pipeline]
        assert output is not None  # references without an output were rejected above
        artifacts = str(folders[reference.pipeline].latest / ARTIFACTS)
        return join_location(artifacts if reference.artifact else output, reference)

    def resolve(work: Work) -> Work:
        return work.model_copy(update={"with_": replace_references(work.with_, locate)})

    spec = pipeline.spec
    resolved = {
        "source": resolve(spec.source),
        "stages": tuple(map(resolve, spec.stages)),
        "sink": resolve(spec.sink),
    }
    return pipeline.model_copy(update={"spec": spec.model_copy(update=resolved)})


def _find_output(folder: PipelineFolder, other: CurationPipeline | None) -> str | None:
    """Return folder or URL of a pipeline's outputs, or None if ledger and file are missing."""
    if (folder.ledger / "data.mdb").exists():
        with opened_to_read(folder.ledger) as store:
            known = store.read_meta(META)
        # The ledger has no location if an older release wrote it, or if an attempt is taking it
        # over right now.
        if known is not None:
            return str(known["place"] or folder.output)
    if other is None:
        return None
    written = other.spec.output_location
    return str(folder.output) if written is None else resolve_location(written)


def _explain_absence(path: str, reference: Reference, volume: Path) -> Problem:
    message = f"pipeline {reference.pipeline!r} has not run on {volume} yet"
    return Problem(path, message, "run it first, or pass its file too")
