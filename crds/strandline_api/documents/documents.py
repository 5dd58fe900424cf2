"""Turns a parsed document into a pipeline, or reports all its problems.

Files, objects from the API server, and dictionaries from Python all pass through this module, which
must not depend on files or YAML.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from strandline_api.documents.depth import check_depth
from strandline_api.documents.problems import Problem, SpecError, did_you_mean, show
from strandline_api.documents.validation import problems_of
from strandline_api.names import API_VERSION, GROUP, PIPELINE
from strandline_api.objects.pipeline import CurationPipeline
from strandline_api.status.records import FORGIVING


def parse_pipeline(document: object) -> CurationPipeline:
    """Validate a document and turn it into a pipeline.

    Args:
        document: a document as returned by a YAML or JSON parser.

    Returns:
        The pipeline with all defaults filled in. Unreadable parts of its status are ignored.

    Raises:
        SpecError: if the document is invalid; `problems` lists all problems.
    """
    if not isinstance(document, Mapping):
        raise SpecError((_explain_other(document),))
    found = _find_unknown_kind(document)
    if found:
        raise SpecError(found)
    check_depth(document.get("spec"))
    try:
        # The lenient context affects only the status, which an operator of another version may have
        # written.
        return CurationPipeline.model_validate(
            dict(document), by_alias=True, by_name=False, context=FORGIVING
        )
    except ValidationError as error:
        problems = problems_of(error, CurationPipeline, "")
        raise SpecError(tuple(map(_complete, problems))) from None


def _explain_other(document: object) -> Problem:
    if document is None:
        return Problem("", "the document is empty", f"it must be a {PIPELINE.name}")
    return Problem("", f"the document must be a {PIPELINE.name} object, not {show(document)}")


def _find_unknown_kind(document: Mapping[Any, Any]) -> tuple[Problem, ...]:
    """Return the problem if kind or version is unknown.

    Validation would otherwise report every field as well.
    """
    kind = document.get("kind")
    if kind is not None and kind != PIPELINE.name:
        # The message already contains the only known kind, so suggest it only for a close
        # misspelling.
        suggestion = did_you_mean(str(kind), [PIPELINE.name])
        message = f"must be '{PIPELINE.name}', not {show(kind)}"
        return (Problem("kind", message, suggestion if suggestion.startswith("did") else ""),)
    version = document.get("apiVersion")
    if version is None or version == API_VERSION:
        return ()
    message = f"must be '{API_VERSION}', not {show(version)}"
    other = isinstance(version, str) and version.startswith(f"{GROUP}/")
    return (
        Problem("apiVersion", message, "this program supports no other version" if other else ""),
    )


def _complete(problem: Problem) -> Problem:
    wanted = {"apiVersion": API_VERSION, "kind": PIPELINE.name}.get(problem.path)
    if wanted is None or problem.message != "required":
        return problem
    return Problem(problem.path, problem.message, f"write '{problem.path}: {wanted}'")
