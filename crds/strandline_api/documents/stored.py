"""Reads and forwards pipelines that a cluster has stored, despite version differences.

The API server has validated a stored document against its CRD, and may have added defaults for
fields that this version does not have. Unknown fields are therefore left out and reported; in a
user's file, they are errors. A document forwarded to a driver is marked as stored and contains only
fields that differ from their defaults, so an older driver sees a new field only if a user sets it.
This module must not depend on the programs that store, read, or run pipelines.
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
from strandline_api.names import LICENSE_ANNOTATION, STORED_ANNOTATION, TITLE_ANNOTATION
from strandline_api.objects.pipeline import CurationPipeline, PipelineSpec

# Fields that drivers do not read, because only the operator handles pods and further attempts.
# Leaving these fields out allows images of any release to run the pipeline.
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
# Characters that are valid in JSON strings, but that YAML rejects or treats as line breaks.
_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
# Matches strings first, to skip them, and then numbers like 1e-07, which YAML would read as text.
_POINTLESS = re.compile(r'"(?:[^"\\]|\\.)*"|(?<![\d.])\d+(?=e[-+]\d)')


class StoredPipeline(NamedTuple):
    """A pipeline, and the paths of ignored fields, such as `spec.ray.colour`."""

    pipeline: CurationPipeline
    unknown: tuple[str, ...]


def parse_stored_pipeline(document: object) -> StoredPipeline:
    """Read a pipeline from an API server. Ignore and report fields of other versions.

    Raises:
        SpecError: if the document has any other problem, including an unknown value in a known
            field.
    """
    try:
        # Most documents have no unknown fields, so search for unknown fields only after an error.
        return StoredPipeline(parse_pipeline(document), ())
    except SpecError:
        known, unknown = omit_unknown(document, CurationPipeline)
        if not unknown:
            raise
        return StoredPipeline(parse_pipeline(known), unknown)


def is_stored(document: object) -> bool:
    """Return True if a document is marked as forwarded from an API server."""
    metadata = document.get("metadata") if isinstance(document, Mapping) else None
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    return isinstance(annotations, Mapping) and annotations.get(STORED_ANNOTATION) == "true"


def omit_unknown(document: object, model: type[BaseModel]) -> tuple[Any, tuple[str, ...]]:
    """Leave out the fields that a model does not have.

    Args:
        document: any value; a value that is not an object is returned unchanged.
        model: a model that rejects unknown fields.

    Returns:
        The document, copied if fields were left out, and the paths of the omitted fields.
    """
    omitted: list[str] = []
    # Repeat the search: validation may report some unknown fields only after others are removed.
    while found := _find_unknown(document, model):
        document = copy.deepcopy(document)
        for location in found:
            _remove(document, location)
            omitted.append(joined(find_location(model, "", location[:-1]).path, location[-1]))
    return document, tuple(omitted)


def describe_unknown(reader: str, unknown: Sequence[str]) -> str:
    """Describe in one sentence the fields that a reader, such as 'this operator', ignores."""
    shown = ", ".join(unknown[:_SHOWN])
    more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
    return f"{reader} does not support, and ignores, {shown}{more}"


def forward_document(document: Mapping[str, Any], spec: PipelineSpec) -> dict[str, Any]:
    """Turn a stored pipeline into the document for its driver.

    Args:
        document: the stored pipeline.
        spec: the spec parsed from `document`.

    Returns:
        A new document that is marked as stored, with the fields that differ from their defaults.
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
            "annotations": {STORED_ANNOTATION: "true", **_choose_annotations(metadata)},
        },
        "spec": omit_defaults(result, spec),
    }


def _choose_annotations(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return the annotations that a driver needs to render the data set's card."""
    annotations = metadata.get("annotations") or {}
    return {
        name: annotations[name]
        for name in (LICENSE_ANNOTATION, TITLE_ANNOTATION)
        if name in annotations
    }


def render_document(document: Mapping[str, Any]) -> str:
    """Render a document as JSON that a YAML parser reads as the same document.

    Characters above U+FFFF are not escaped: JSON escapes them as two surrogates, which YAML would
    read as two characters.
    """
    text = json.dumps(document, indent=1, ensure_ascii=False)
    text = _POINTLESS.sub(lambda it: it[0] if it[0][0] == '"' else f"{it[0]}.0", text)
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def omit_defaults(document: Mapping[str, Any], parsed: ApiModel) -> dict[str, Any]:
    """Leave out fields with default values. Parsing the result gives the same model.

    Args:
        document: the document from which `parsed` was read; all its fields are known.
    """
    names = {field.alias or name: name for name, field in type(parsed).model_fields.items()}
    result: dict[str, Any] = {}
    for alias, written in document.items():
        if alias not in names:  # a Kubernetes field that the model keeps untyped
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
