"""Declares pictures, sounds, and labels in a schema, for Hugging Face's `datasets`.

Arrow stores bytes and numbers; `datasets` reads their meaning from the schema's metadata. The
module must not depend on files, and does not need that library.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from strandline.data.tables.columns import find_column, holds_text, set_column
from strandline.plan.stages.stage import Params

_MARK = b"huggingface"
_MEDIA = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


class MediaFeature(StrEnum):
    """The kind of media that bytes contain."""

    IMAGE = "image"
    AUDIO = "audio"


class LabelFeature(Params):
    """A label of a fixed list."""

    classes: tuple[str, ...] = Field(
        min_length=1, description="Names of the classes; a label is written as its position."
    )


Feature = MediaFeature | LabelFeature
_TYPES = {MediaFeature.IMAGE: "Image", MediaFeature.AUDIO: "Audio"}


def declare_features(table: pa.Table, features: Mapping[str, Feature]) -> pa.Table:
    """Return the table with the column types of the features, declared in its schema.

    Raises:
        MissingColumnError: a column is missing.
        TypeError: a column has an unsuitable type.
        ValueError: a label is not among the classes.
    """
    if not features:
        return table
    for name, feature in features.items():
        column = find_column(table, name).combine_chunks()
        changed = (
            _number_labels(name, column, feature)
            if isinstance(feature, LabelFeature)
            else _wrap_media(name, column)
        )
        table = set_column(table, name, changed, changed.type)
    facts = {"info": {"features": {name: _describe(each) for name, each in features.items()}}}
    metadata = {**(table.schema.metadata or {}), _MARK: json.dumps(facts).encode()}
    return table.replace_schema_metadata(metadata)


def _describe(feature: Feature) -> dict[str, Any]:
    if isinstance(feature, LabelFeature):
        return {"names": list(feature.classes), "_type": "ClassLabel"}
    return {"_type": _TYPES[feature]}


def _wrap_media(name: str, column: pa.Array) -> pa.Array:
    """Return media bytes as the struct that `datasets` expects, with a null path."""
    kind = column.type
    if kind == _MEDIA:
        return column
    if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        msg = f"the column {name!r} holds {kind}, not bytes"
        raise TypeError(msg)
    content = column.cast(pa.binary())
    paths = pa.nulls(len(column), pa.string())
    # A missing value is a null struct, not a struct of nulls.
    mask = pc.is_null(content)
    return pa.StructArray.from_arrays([content, paths], fields=list(_MEDIA), mask=mask)


def _number_labels(name: str, column: pa.Array, feature: LabelFeature) -> pa.Array:
    kind, count = column.type, len(feature.classes)
    if pa.types.is_integer(kind):
        least, most = pc.min_max(column).values()
        # `min_max` is null for a column without values.
        if column.null_count < len(column) and not (0 <= least.as_py() <= most.as_py() < count):
            msg = f"the column {name!r} has numbers that are not among its {count} classes"
            raise ValueError(msg)
        return column.cast(pa.int64())
    if not holds_text(kind):
        msg = f"the column {name!r} must hold names or numbers of classes, not {kind}"
        raise TypeError(msg)
    texts = column.cast(pa.string())
    numbers = pc.index_in(texts, pa.array(feature.classes, pa.string())).cast(pa.int64())
    unknown = texts.filter(pc.and_(pc.is_null(numbers), pc.is_valid(texts)))
    if len(unknown):
        msg = f"the column {name!r} has {unknown[0].as_py()!r}, which is not among its classes"
        raise ValueError(msg)
    return numbers
