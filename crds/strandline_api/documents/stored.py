"""Pipelines that a cluster has stored, read and handed on by programs of other versions.

An API server has checked such a document against its definitions, and may have written defaults of
fields into it that a program here has never heard of. So what is unknown is left out and named,
while a file that a person wrote stays refused for it. What is handed on to a driver says that it
was stored, and holds what differs from the defaults alone, so that an older driver meets a field
only where somebody uses it. This room must not know who stores, reads or drives.
"""

import copy
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ValidationError

from strandline_api.api_model import ApiModel
from strandline_api.documents.documents import parse_pipeline
from strandline_api.documents.locations import joined, place_of
from strandline_api.documents.problems import SpecError
from strandline_api.names import STORED_ANNOTATION
from strandline_api.objects.pipeline import CurationPipeline, PipelineSpec

# What no driver reads: where pods run and how attempts follow each other is the operator's.
# An image of any age may drive whatever stands there.
OPERATORS_OWN: Final = frozenset(
    {"attemptHistoryLimit", "oom", "onWorkerLoss", "ray", "retry", "suspend", "ttlAfterFinished"}
)
_SHOWN = 8
# What JSON lets stand and YAML refuses, or takes for the end of a line.
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
    """Tell whether a document says that it was handed on by who had it from an API server."""
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
    # What is wrong elsewhere may hide unknown fields until something was left out.
    while found := _find_unknown(document, model):
        document = copy.deepcopy(document)
        for location in found:
            _remove(document, location)
            omitted.append(joined(place_of(model, "", location[:-1]).path, location[-1]))
    return document, tuple(omitted)


def describe_unknown(reader: str, unknown: Sequence[str]) -> str:
    """Say in one sentence which fields a reader, such as 'this operator', ignores."""
    shown = ", ".join(unknown[:_SHOWN])
    more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
    return f"{reader} does not know and ignores {shown}{more}"


def hand_on(document: Mapping[str, Any], spec: PipelineSpec) -> dict[str, Any]:
    """Make of a stored pipeline the one that its driver is given.

    Args:
        document: the pipeline as it is stored.
        spec: as it was read from that document.

    Returns:
        A new document that says it was stored, with what differs from the defaults.
    """
    known, _ = omit_unknown(document, CurationPipeline)
    metadata = known["metadata"]
    kept = {name: value for name, value in known["spec"].items() if name not in OPERATORS_OWN}
    return {
        "apiVersion": known["apiVersion"],
        "kind": known["kind"],
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "annotations": {STORED_ANNOTATION: "true"},
        },
        "spec": omit_defaults(kept, spec),
    }


def spell_document(document: Mapping[str, Any]) -> str:
    """Spell a document as JSON that is the same document to a reader of YAML.

    Characters beyond 16 bits stand as they are: JSON writes two escapes for one, YAML reads two.
    """
    text = json.dumps(document, indent=1, ensure_ascii=False)
    text = _POINTLESS.sub(lambda it: it[0] if it[0][0] == '"' else f"{it[0]}.0", text)
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def omit_defaults(document: Mapping[str, Any], parsed: ApiModel) -> dict[str, Any]:
    """Leave out the fields whose values are the defaults; what is read of it stays the same.

    Args:
        document: what `parsed` was read from; all its fields are known.
    """
    names = {field.alias or name: name for name, field in type(parsed).model_fields.items()}
    kept: dict[str, Any] = {}
    for spelled, written in document.items():
        if spelled not in names:  # Kubernetes' own, which a model may keep without knowing it
            kept[spelled] = copy.deepcopy(written)
            continue
        field, held = type(parsed).model_fields[names[spelled]], getattr(parsed, names[spelled])
        is_default = not field.is_required() and held == field.get_default(
            call_default_factory=True, validated_data={}
        )
        if not is_default:
            kept[spelled] = _omit_inside(written, held)
    return kept


def _omit_inside(written: Any, held: object) -> Any:  # noqa: ANN401 - any part of a document
    if isinstance(held, ApiModel):
        return omit_defaults(written, held)
    if isinstance(held, tuple) and all(isinstance(one, ApiModel) for one in held):
        return [omit_defaults(part, one) for part, one in zip(written, held, strict=True)]
    return copy.deepcopy(written)


def _find_unknown(document: object, model: type[BaseModel]) -> list[tuple[int | str, ...]]:
    if not isinstance(document, Mapping):
        return []
    try:
        model.model_validate(dict(document), by_alias=True, by_name=False)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False, include_input=False)
        return [one["loc"] for one in details if one["type"] == "extra_forbidden"]
    return []


def _remove(document: object, location: Sequence[int | str]) -> None:
    node: Any = document
    for part in location[:-1]:
        node = node[part]
    del node[location[-1]]
