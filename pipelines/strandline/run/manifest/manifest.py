"""Reads a manifest file into a checked plan with all its stages loaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from strandline.plan.pipeline import PipelinePlan
from strandline.plan.planning import plan_spec
from strandline.run.code.code import bring_code
from strandline.run.code.stage_code import fingerprint_code
from strandline.run.manifest.positions import locating
from strandline.run.manifest.references import resolve_references
from strandline.run.manifest.yaml_file import read_pipeline
from strandline.storage.layout import VOLUME
from strandline_api.documents.problems import Problem, SpecError
from strandline_api.objects.pipeline import CurationPipeline
from strandline_api.spec.publishing import MeasureName


class Manifest(NamedTuple):
    """A pipeline as written, with defaults filled in, and its plan.

    Attributes:
        unknown: paths of ignored fields.
        is_stored: whether the manifest comes from an API server, so an operator runs its attempts.
    """

    pipeline: CurationPipeline
    plan: PipelinePlan
    unknown: tuple[str, ...] = ()
    is_stored: bool = False


def read_manifest(
    path: Path,
    settings: Sequence[str] = (),
    *,
    is_strict: bool = False,
    volume: Path = Path(VOLUME),
    others: Iterable[CurationPipeline] = (),
) -> Manifest:
    """Read and check a manifest file.

    Args:
        path, settings, is_strict: see `read_pipeline`.
        volume, others: see `resolve_references`.

    Raises:
        SpecError: if the file, the settings, or the pipeline are wrong. Lists all problems.
        StrandlineError: if the pipeline's code can't be fetched now.
    """
    pipeline, unknown, is_stored = read_pipeline(path, settings, is_strict=is_strict)
    with locating(path, settings):
        pipeline = resolve_references(pipeline, volume, others)
        plan = fingerprint_code(plan_spec(pipeline, bring_code(pipeline.spec.code)))
        problems = tuple(_find_unmeasured(pipeline))
        if problems:
            raise SpecError(problems)
    return Manifest(pipeline, plan, unknown, is_stored)


def _find_unmeasured(pipeline: CurationPipeline) -> Iterator[Problem]:
    """Yield a problem for each expectation whose stage does not provide the expected measure."""
    spec = pipeline.spec
    uses = {item.name: item.use for item in spec.items.values()}
    for at, expectation in enumerate(spec.publish.require.expectations if spec.publish else ()):
        measure = expectation.measure
        stage = _FIELDS if measure.is_of_column else _MEASURING[measure]
        if uses[expectation.stage] != stage:
            yield Problem(
                f"spec.publish.require.expectations[{at}].stage",
                f"{expectation.stage!r} does not measure {str(measure)!r}",
                f"name a stage of the pipeline that uses {stage!r}",
            )


# Names of the stages that provide the measures.
_FIELDS = "measure-fields"
_MEASURING = {
    MeasureName.LANGUAGE_SHARE: "count-languages",
    MeasureName.DOCUMENTS: "count-tokens",
    MeasureName.TOKENS: "count-tokens",
}
