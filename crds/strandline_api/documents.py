"""Reads a `CurationPipeline` out of a parsed document, or says all that is wrong with it.

The one way in for a file, an object from the API server or a dictionary from Python. This room
must not know files or YAML.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from strandline_api.kinds import API_VERSION, GROUP, PIPELINE
from strandline_api.pipeline import CurationPipeline
from strandline_api.problems import Problem, did_you_mean, problems_of, show


class SpecError(ValueError):
    """A document that is no valid pipeline.

    Attributes:
        problems: everything that was found wrong, at least one.

    """

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        """Hold the problems; the message is one line for each."""
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


def parse_pipeline(document: object) -> CurationPipeline:
    """Check a document and turn it into a pipeline.

    Args:
        document: what a YAML or JSON reader returned for one document.

    Returns:
        The pipeline with all defaults filled in.

    Raises:
        SpecError: something is wrong; `problems` lists all of it.

    """
    if not isinstance(document, Mapping):
        raise SpecError((_not_an_object(document),))
    strangers = _strangers(document)
    if strangers:
        raise SpecError(strangers)
    try:
        return CurationPipeline.model_validate(dict(document), by_alias=True, by_name=False)
    except ValidationError as error:
        raise SpecError(tuple(map(_completed, problems_of(error, CurationPipeline, "")))) from None


def _not_an_object(document: object) -> Problem:
    if document is None:
        return Problem("", "the document is empty", f"it must be a {PIPELINE.name}")
    return Problem("", f"the document must be a {PIPELINE.name} object, not {show(document)}")


def _strangers(document: Mapping[Any, Any]) -> tuple[Problem, ...]:
    """Stop at a document of another kind, of which every field would be a problem."""
    kind = document.get("kind")
    if kind is not None and kind != PIPELINE.name:
        meant = did_you_mean(str(kind), [PIPELINE.name])
        said = f"must be '{PIPELINE.name}', not {show(kind)}"
        return (Problem("kind", said, meant if meant.startswith("did") else ""),)
    version = document.get("apiVersion")
    if version is None or version == API_VERSION:
        return ()
    said = f"must be '{API_VERSION}', not {show(version)}"
    other = isinstance(version, str) and version.startswith(f"{GROUP}/")
    return (Problem("apiVersion", said, "this program knows no other version" if other else ""),)


def _completed(problem: Problem) -> Problem:
    wanted = {"apiVersion": API_VERSION, "kind": PIPELINE.name}.get(problem.path)
    if wanted is None or problem.message != "required":
        return problem
    return Problem(problem.path, problem.message, f"write '{problem.path}: {wanted}'")
