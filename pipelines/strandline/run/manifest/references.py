"""What a pipeline reads of others that run on the same volume, as folders and URLs.

Where another pipeline keeps its outputs its ledger knows, whatever its file says by now; before its
first run the file must do. This room must not know what is read there, nor which pipeline goes
first.
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
    """Return the pipeline with folders and URLs in place of each `{pipeline: NAME}`.

    Args:
        pipeline: as its file has it.
        volume: folder on which the others run.
        others: pipelines with files at hand, which need not have run yet.

    Raises:
        SpecError: one that is read has not run on the volume, and its file is not at hand.
        LedgerError: its ledger can't be read.
    """
    if not pipeline.spec.references:
        return pipeline
    namespace = pipeline.metadata.namespace
    given = {each.metadata.name: each for each in others if each.metadata.namespace == namespace}
    read = {reference.pipeline for _, reference in pipeline.spec.references}
    folders = {name: PipelineFolder.of(volume, namespace, name) for name in read}
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
        assert output is not None  # a reference without an output is a problem
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
    """Return folder or URL of a pipeline's outputs; None where neither ledger nor file is there."""
    if (folder.ledger / "data.mdb").exists():
        with opened_to_read(folder.ledger) as store:
            known = store.read_meta(META)
        # A ledger of before there were places, or of an attempt that is just taking it over.
        if known is not None:
            return str(known["place"] or folder.output)
    if other is None:
        return None
    written = other.spec.output_location
    return str(folder.output) if written is None else resolve_location(written)


def _explain_absence(path: str, reference: Reference, volume: Path) -> Problem:
    message = f"pipeline {reference.pipeline!r} has not run on {volume} yet"
    return Problem(path, message, "run it first, or name its file too")
