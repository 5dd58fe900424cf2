"""The predecessors of a pipeline, and references to their outputs.

A reference is a parameter value, `{pipeline: NAME}`, that is replaced with a folder or URL of
another pipeline. This module must not depend on the location of outputs, or on the pipelines that
wait.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, NamedTuple

from pydantic import AfterValidator, Field

from strandline_api.api_model import SUBDOMAIN_PATTERN, ApiModel, Label, Matching, distinct

MAX_PREDECESSORS: Final = 32

PipelineName = Annotated[
    str, Matching(SUBDOMAIN_PATTERN, "the name of a pipeline in the same namespace, such as 'raw'")
]


class Predecessor(ApiModel):
    """A pipeline that must have succeeded before."""

    name: PipelineName = Field(description="Name of a pipeline in the same namespace.")
    run_id: Label | None = Field(
        default=None,
        description=(
            "The pipeline's run that must have succeeded, such as 'second'. When unset, its latest "
            "run."
        ),
    )


def _distinct_names(items: tuple[Predecessor, ...]) -> tuple[Predecessor, ...]:
    distinct(tuple(item.name for item in items))
    return items


Predecessors = Annotated[tuple[Predecessor, ...], AfterValidator(_distinct_names)]


class Reference(NamedTuple):
    """A reference to data of another pipeline.

    Attributes:
        pipeline: name of the other pipeline.
        files: glob below the pipeline's output, or empty for the whole output.
        artifact: path below the artifacts of the latest publication, or empty to read the output.
        run: the run that must have succeeded, or empty for the latest run.
    """

    pipeline: str
    files: str = ""
    artifact: str = ""
    run: str = ""


_RUN = "runId"
_KEYS = {"pipeline", "files", "artifact", _RUN}


def parse_reference(value: object) -> Reference | None:
    """Parse `{pipeline: NAME}` with its optional keys. Return None for any other value."""
    # An object with other keys is an ordinary parameter that happens to have a key `pipeline`.
    if not isinstance(value, Mapping) or not {"pipeline"} <= value.keys() <= _KEYS:
        return None
    is_text = all(isinstance(text, str) and text for text in value.values())
    # A reference points into the output or to an artifact, not to both.
    is_either = not {"files", "artifact"} <= value.keys()
    fields = {("run" if name == _RUN else name): text for name, text in value.items()}
    return Reference(**fields) if is_text and is_either else None


def find_references(value: object, path: str) -> Iterator[tuple[str, Reference]]:
    """Yield the references in parameters with their paths, which start with `path`."""
    found = parse_reference(value)
    if found is not None:
        yield path, found
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from find_references(inner, f"{path}.{name}")
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from find_references(inner, f"{path}[{index}]")


def replace_references(value: Any, locate: Callable[[Reference], str]) -> Any:  # noqa: ANN401 - JSON
    """Return parameters in which each reference is replaced with a folder, file, or URL.

    Args:
        locate: function that returns the location of a reference.
    """
    found = parse_reference(value)
    if found is not None:
        return locate(found)
    if isinstance(value, Mapping):
        return {name: replace_references(inner, locate) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [replace_references(inner, locate) for inner in value]
    return value


def join_location(root: str, reference: Reference) -> str:
    """Return the folder, file, or URL to which a reference points.

    Args:
        root: folder or URL of the output, or of the artifacts if the reference names an artifact.
    """
    # Without a file or artifact, the result ends with a slash, which sources read as a folder.
    return f"{root.rstrip('/')}/{reference.artifact or reference.files}"


def find_circle(name: str, before: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """Return the names on a cycle from a pipeline back to itself, or empty if there is no cycle.

    Args:
        before: the predecessors of each pipeline, by name.
    """
    trails: list[tuple[str, ...]] = [(name,)]
    seen = {name}
    while trails:
        trail = trails.pop()
        for other in before.get(trail[-1], ()):
            if other == name:
                return (*trail, name)
            # Skip visited pipelines, because a cycle without this pipeline would never end.
            if other not in seen:
                seen.add(other)
                trails.append((*trail, other))
    return ()
