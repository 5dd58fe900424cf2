"""Reads a pipeline or an attempt out of a parsed document, or says all that is wrong with it.

The one way in for a file, an object from the API server or a dictionary from Python. This room
must not know files or YAML.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from strandline_api.documents.depth import check_depth
from strandline_api.documents.problems import Problem, SpecError, did_you_mean, problems_of, show
from strandline_api.names import API_VERSION, ATTEMPT, GROUP, PIPELINE, Kind
from strandline_api.objects.attempt import CurationAttempt
from strandline_api.objects.pipeline import CurationPipeline
from strandline_api.status.records import FORGIVING

Parsed = TypeVar("Parsed", CurationPipeline, CurationAttempt)


def parse_pipeline(document: object) -> CurationPipeline:
    """Check a document and turn it into a pipeline.

    Args:
        document: what a YAML or JSON reader returned for one document.

    Returns:
        The pipeline with all defaults filled in. Its status is whatever could be understood.

    Raises:
        SpecError: something is wrong; `problems` lists all of it.

    """
    return _parse(document, PIPELINE, CurationPipeline)


def parse_attempt(document: object) -> CurationAttempt:
    """Read an attempt, whichever version of the operator wrote it.

    Args:
        document: the object as the API server returned it.

    Returns:
        The attempt; what could not be understood of spec and status counts as not given.

    Raises:
        SpecError: it does not say which attempt of which pipeline it is.

    """
    return _parse(document, ATTEMPT, CurationAttempt)


def _parse(document: object, kind: Kind, model: type[Parsed]) -> Parsed:
    if not isinstance(document, Mapping):
        raise SpecError((_not_an_object(document, kind),))
    found = _find_unknown_kind(document, kind)
    if found:
        raise SpecError(found)
    check_depth(document.get("spec"))
    try:
        return model.model_validate(dict(document), by_alias=True, by_name=False, context=FORGIVING)
    except ValidationError as error:
        problems = problems_of(error, model, "")
        raise SpecError(tuple(_completed(problem, kind) for problem in problems)) from None


def _not_an_object(document: object, kind: Kind) -> Problem:
    if document is None:
        return Problem("", "the document is empty", f"it must be a {kind.name}")
    return Problem("", f"the document must be a {kind.name} object, not {show(document)}")


def _find_unknown_kind(document: Mapping[Any, Any], expected: Kind) -> tuple[Problem, ...]:
    """Stop at a document of another kind, of which every field would be a problem."""
    kind = document.get("kind")
    if kind is not None and kind != expected.name:
        suggestion = did_you_mean(str(kind), [expected.name])
        message = f"must be '{expected.name}', not {show(kind)}"
        return (Problem("kind", message, suggestion if suggestion.startswith("did") else ""),)
    version = document.get("apiVersion")
    if version is None or version == API_VERSION:
        return ()
    message = f"must be '{API_VERSION}', not {show(version)}"
    other = isinstance(version, str) and version.startswith(f"{GROUP}/")
    return (Problem("apiVersion", message, "this program knows no other version" if other else ""),)


def _completed(problem: Problem, kind: Kind) -> Problem:
    wanted = {"apiVersion": API_VERSION, "kind": kind.name}.get(problem.path)
    if wanted is None or problem.message != "required":
        return problem
    return Problem(problem.path, problem.message, f"write '{problem.path}: {wanted}'")
