"""Describes a stage class without running the stage: shape, parameters, defaults.

This module does no I/O, and must not depend on files or terminals.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from textwrap import fill
from typing import Any, NamedTuple

from pydantic import ValidationError

from strandline.cli.views.format import align
from strandline.plan.pipeline import StagePlan
from strandline.plan.stages.columns import Columns
from strandline.plan.stages.ends import SinkStage, SourceStage
from strandline.plan.stages.stage import Shape, Stage, StatefulFilter

# Test column that no stage reads: if a stage keeps this column, it keeps all columns that it does
# not read.
_OTHER = "a column that no stage reads"
_TYPES = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "object": "object",
    "null": "null",
}
_BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "more than",
    "maximum": "at most",
    "exclusiveMaximum": "less than",
}


class Parameter(NamedTuple):
    """A parameter of a stage, in the manifest a field of `with:`.

    Attributes:
        name: name in YAML.
        type: type in words.
        is_required: whether the field has no default.
        default: default as a JSON-compatible value; None if there is no default.
    """

    name: str
    type: str
    is_required: bool
    default: Any
    description: str


class StageColumns(NamedTuple):
    """Columns that a stage with default parameters reads, adds, and removes.

    Attributes:
        needed: required columns.
        added: new columns in the stage's output.
        removed: required columns that the output lacks.
        keeps_others: whether the output keeps columns that the stage does not read.
        is_open: whether the output may have further columns that depend on the data.
    """

    needed: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    keeps_others: bool
    is_open: bool


class StageEntry(NamedTuple):
    """A stage as the catalogue shows it."""

    use: str
    shape: Shape
    fans_out: bool
    gathers: bool
    version: str
    description: str
    parameters: tuple[Parameter, ...]
    scope: str
    columns: StageColumns | None = None

    @property
    def summary(self) -> str:
        """First line of the description."""
        return self.description.partition("\n")[0]


def read_entry(use: str, stage_class: type[Stage]) -> StageEntry:
    """Return the catalogue's entry for a class and its name in `use:`."""
    # Create the instance without `__init__`: only the class matters for the shape, and the stage is
    # never called.
    plan = StagePlan(use, use, stage_class.__new__(stage_class))
    schema = stage_class.Params.model_json_schema(by_alias=True)
    required = schema.get("required", [])
    parameters = (
        Parameter(
            name,
            describe_type(field, schema.get("$defs", {})),
            name in required,
            field.get("default"),
            " ".join(field.get("description", "").split()),
        )
        for name, field in schema.get("properties", {}).items()
    )
    return StageEntry(
        use,
        plan.shape,
        plan.may_fan_out,
        plan.gathers,
        stage_class.version,
        inspect.getdoc(stage_class) or "",
        tuple(parameters),
        describe_scope(stage_class),
        read_columns(stage_class),
    )


def describe_scope(stage_class: type[Stage]) -> str:
    """Describe whether a stage works on a row, a task, or the whole corpus."""
    if stage_class.scope:
        return stage_class.scope
    if issubclass(stage_class, SourceStage):
        return "corpus"
    if issubclass(stage_class, SinkStage):
        return "task"
    is_mixing = stage_class.mixes_rows or "within" in stage_class.Params.model_fields
    alone = "task" if is_mixing else "row"
    return f"{alone}; gathers from the corpus" if issubclass(stage_class, StatefulFilter) else alone


def read_columns(
    stage_class: type[Stage], values: Mapping[str, Any] | None = None
) -> StageColumns | None:
    """Return a stage's columns, or None for a source, a sink, or a stage without declarations.

    Args:
        values: parameters, for a stage with required parameters.
    """
    is_end = issubclass(stage_class, SourceStage | SinkStage)
    if is_end or (stage_class.keeps_columns is None and not _overrides_columns(stage_class)):
        return None
    stage = stage_class.__new__(stage_class)
    try:
        stage.params = stage_class.Params.model_validate(values or {})
    except ValidationError:  # some parameters are required
        stage.params = stage_class.Params.model_construct()
    try:
        needed = tuple(stage.list_needed_columns())
        after = stage.change_columns(Columns((*needed, _OTHER)))
    except AttributeError:  # the columns depend on a required parameter
        return None
    return StageColumns(
        needed,
        tuple(name for name in after.names if name not in needed and name != _OTHER),
        tuple(name for name in needed if name not in after.names and not after.is_open),
        keeps_others=_OTHER in after.names,
        is_open=after.is_open,
    )


def _overrides_columns(stage_class: type[Stage]) -> bool:
    return stage_class.change_columns is not Stage.change_columns


def describe_type(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    """Describe a field's type in words, such as `list of text` or `whole number, at least 1`."""
    if "$ref" in schema:
        # References look like `#/$defs/Name`.
        return describe_type(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    options = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    if options:
        rendered = [describe_type(option, definitions) for option in options]
        # Remove duplicates: different schemas, such as texts with two patterns, have the same
        # description.
        return " or ".join(dict.fromkeys(rendered))
    if "const" in schema or "enum" in schema:
        return " | ".join(map(str, schema.get("enum", [schema.get("const")])))
    if "prefixItems" in schema:
        of_each = dict.fromkeys(describe_type(item, definitions) for item in schema["prefixItems"])
        return f"list of {len(schema['prefixItems'])}: {' or '.join(of_each)}"
    if schema.get("type") == "array":
        return f"list of {describe_type(schema.get('items', {}), definitions)}"
    kind = _TYPES.get(schema.get("type", ""), "anything")
    bounds = [f"{words} {schema[name]:g}" for name, words in _BOUNDS.items() if name in schema]
    return ", ".join([kind, *bounds])


def render_entry(entry: StageEntry) -> dict[str, Any]:
    """Render the entry for `stages --json`; its keys are stable."""
    return {
        "use": entry.use,
        "shape": entry.shape.name.lower(),
        "fansOut": entry.fans_out,
        "gathers": entry.gathers,
        "version": entry.version,
        "description": entry.description,
        "scope": entry.scope,
        "columns": _render_columns(entry.columns),
        "parameters": [
            {
                "name": each.name,
                "type": each.type,
                "required": each.is_required,
                "default": each.default,
                "description": each.description,
            }
            for each in entry.parameters
        ],
    }


def _render_columns(columns: StageColumns | None) -> dict[str, Any] | None:
    if columns is None:
        return None
    return {
        "needed": list(columns.needed),
        "added": list(columns.added),
        "removed": list(columns.removed),
        "keepsOthers": columns.keeps_others,
    }


def describe_catalogue(entries: list[StageEntry], width: int | None = None) -> list[str]:
    """Describe all stages, with one line per stage if the width allows."""
    rows = [("stage", "shape", "what it does")]
    rows += [(entry.use, entry.shape, entry.summary) for entry in entries]
    return list(align(rows, 3, width))


def describe_entry(entry: StageEntry, width: int | None = None) -> list[str]:
    """Describe one stage with its parameters, in lines of at most `width` characters."""
    also = (", fans out" if entry.fans_out else "") + (", gathers" if entry.gathers else "")
    head = [f"{entry.use} ({entry.shape}{also}, version {entry.version})", ""]
    lines = [*head, *entry.description.splitlines(), *_describe_columns(entry)]
    lines += _describe_parameters(entry)
    return [_fold(line, width) for line in lines]


def _describe_columns(entry: StageEntry) -> Iterator[str]:
    """Yield the scope of a stage, and the columns that it reads, adds, and removes by default."""
    yield ""
    yield f"looks at: {entry.scope}"
    if (columns := entry.columns) is None:
        return
    for verb, names in (("reads", columns.needed), ("adds", columns.added)):
        if names:
            yield f"{verb}: {', '.join(names)}"
    if removed := describe_removed(columns):
        yield f"removes: {removed}"


def describe_removed(columns: StageColumns) -> str:
    """Describe the columns that a stage removes; return an empty string if there are none."""
    others = [] if columns.keeps_others or columns.is_open else ["all others"]
    return ", ".join([*columns.removed, *others])


def _fold(line: str, width: int | None) -> str:
    """Wrap a long line. Further lines get the indentation of the first."""
    if width is None or len(line) <= width:
        return line
    indent = line[: len(line) - len(line.lstrip())]
    return fill(
        line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _describe_parameters(entry: StageEntry) -> Iterator[str]:
    yield ""
    if not entry.parameters:
        yield "The stage has no parameters."
        return
    yield "parameters:"
    for each in entry.parameters:
        default = json.dumps(each.default)
        yield f"  {each.name} ({each.type}; {'required' if each.is_required else default})"
        if each.description:
            yield f"      {each.description}"
