"""Pipelines that a cluster has stored, read and handed on by programs of other versions.

An API server has checked such a document against its definitions, and may have written defaults of
fields into it that a program here has never heard of. So what is unknown is left out and named,
while a file that a person wrote stays refused for it. What is handed on to a driver says that it
was stored, and holds what differs from the defaults alone, so that an older driver meets a field
only where a user sets it. This room must not know what stores, reads or drives.
"""

import copy
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ValidationError

from strandline_api.api_model import ApiModel
from strandline_api.documents.documents import parse_pipeline
from strandline_api.documents.locations import find_location, joined
from strandline_api.documents.problems import SpecError
from strandline_api.names import STORED_ANNOTATION
from strandline_api.objects.pipeline import CurationPipeline, PipelineSpec

# Fields that no driver reads: where pods run and how attempts follow each other is the operator's.
# An image of any age may drive whatever stands there.
OPERATORS_OWN: Final = frozenset(
    {
        "after",
        "attemptHistoryLimit",
        "holdOnFailure",
        "oom",
        "onWorkerLoss",
        "preflight",
        "ray",
        "retry",
        "schedule",
        "suspend",
        "ttlAfterFinished",
    }
)
_SHOWN = 8
# Characters that JSON lets stand and YAML refuses, or takes for the end of a line.
_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
# Texts, which come first and are passed over, and numbers that YAML takes for text: 1e-07.
_POINTLESS = re.compile(r'"(?:[^"\\]|\\.)*"|(?<![\d.])\d+(?=e[-+]\d)')


class Stored(NamedTuple):
    """A pipeline, and the paths of the fields that were ignored, such as `spec.ray.colour`."""

    pipeline: CurationPipeline
    unknown: tuple[str, ...]


def parse_stored_pipeline(document: object) -> Stored:
    """Read a pipeline as an API server gave it; fields of other versions are ignored and named.

    Raises:
        SpecError: something else is wrong, an unknown word in a known field among it.
    """
    try:
        return Stored(parse_pipeline(document), ())
    except SpecError:
        known, unknown = omit_unknown(document, CurationPipeline)
        if not unknown:
            raise
        return Stored(parse_pipeline(known), unknown)


def is_stored(document: object) -> bool:
    """Return whether a document says that it was forwarded from an API server."""
    metadata = document.get("metadata") if isinstance(document, Mapping) else None
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    return isinstance(annotations, Mapping) and annotations.get(STORED_ANNOTATION) == "true"


def omit_unknown(document: object, model: type[BaseModel]) -> tuple[Any, tuple[str, ...]]:
    """Leave out the fields that a model does not know.

    Args:
        document: anything; one that is no object comes back as it is.
        model: refuses what it does not know.

    Returns:
        The document, copied where something was left out, and the paths of what was.
    """
    omitted: list[str] = []
    # Faults elsewhere may hide unknown fields until something was left out.
    while found := _find_unknown(document, model):
        document = copy.deepcopy(document)
        for location in found:
            _remove(document, location)
            omitted.append(joined(find_location(model, "", location[:-1]).path, location[-1]))
    return document, tuple(omitted)


def describe_unknown(reader: str, unknown: Sequence[str]) -> str:
    """Describe in one sentence which fields a reader, such as 'this operator', ignores."""
    shown = ", ".join(unknown[:_SHOWN])
    more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
    return f"{reader} does not know and ignores {shown}{more}"


def forward_document(document: Mapping[str, Any], spec: PipelineSpec) -> dict[str, Any]:
    """Make of a stored pipeline the one that its driver is given.

    Args:
        document: the pipeline as it is stored.
        spec: as it was read from that document.

    Returns:
        A new document that says it was stored, with what differs from the defaults.
    """
    known, _ = omit_unknown(document, CurationPipeline)
    metadata = known["metadata"]
    result = {name: value for name, value in known["spec"].items() if name not in OPERATORS_OWN}
    return {
        "apiVersion": known["apiVersion"],
        "kind": known["kind"],
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "annotations": {STORED_ANNOTATION: "true"},
        },
        "spec": omit_defaults(result, spec),
    }


def render_document(document: Mapping[str, Any]) -> str:
    """Render a document as JSON that is the same document to a reader of YAML.

    Characters beyond 16 bits stand as they are: JSON writes two escapes for one, YAML reads two.
    """
    text = json.dumps(document, indent=1, ensure_ascii=False)
    text = _POINTLESS.sub(lambda it: it[0] if it[0][0] == '"' else f"{it[0]}.0", text)
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def omit_defaults(document: Mapping[str, Any], parsed: ApiModel) -> dict[str, Any]:
    """Leave out the fields with default values; what is read of it stays the same.

    Args:
        document: what `parsed` was read from; all its fields are known.
    """
    names = {field.alias or name: name for name, field in type(parsed).model_fields.items()}
    result: dict[str, Any] = {}
    for alias, written in document.items():
        if alias not in names:  # Kubernetes' own, which a model may keep without knowing it
            result[alias] = copy.deepcopy(written)
            continue
        field, value = type(parsed).model_fields[names[alias]], getattr(parsed, names[alias])
        is_default = not field.is_required() and value == field.get_default(
            call_default_factory=True, validated_data={}
        )
        if not is_default:
            result[alias] = _omit_inside(written, value)
    return result


def _omit_inside(written: Any, value: object) -> Any:  # noqa: ANN401 - any part of a document
    if isinstance(value, ApiModel):
        return omit_defaults(written, value)
    if isinstance(value, tuple) and all(isinstance(model, ApiModel) for model in value):
        return [omit_defaults(part, model) for part, model in zip(written, value, strict=True)]
    return copy.deepcopy(written)


def _find_unknown(document: object, model: type[BaseModel]) -> list[tuple[int | str, ...]]:
    if not isinstance(document, Mapping):
        return []
    try:
        model.model_validate(dict(document), by_alias=True, by_name=False)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False, include_input=False)
        return [detail["loc"] for detail in details if detail["type"] == "extra_forbidden"]
    return []


def _remove(document: object, location: Sequence[int | str]) -> None:
    node: Any = document
    for part in location[:-1]:
        node = node[part]
    del node[location[-1]]
