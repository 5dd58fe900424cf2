"""What there is to know about a stage class without running it: shape, parameters, defaults.

Pure: it reads classes and their schemas and knows neither files nor terminals.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from textwrap import fill
from typing import Any, NamedTuple

from strandline.cli.views.format import align
from strandline.plan.pipeline import StagePlan
from strandline.plan.stage import Shape, Stage

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
    """One field of a stage's `with:`.

    Attributes:
        name: as it is written in YAML.
        type: in words.
        is_required: it has no default.
        default: JSON-able; None without one.
    """

    name: str
    type: str
    is_required: bool
    default: Any
    description: str


class StageEntry(NamedTuple):
    """A stage as the catalogue shows it."""

    use: str
    shape: Shape
    fans_out: bool
    gathers: bool
    version: str
    description: str
    parameters: tuple[Parameter, ...]

    @property
    def summary(self) -> str:
        """The first line of the description."""
        return self.description.partition("\n")[0]


def read_entry(use: str, stage_class: type[Stage]) -> StageEntry:
    """Return the catalogue's entry of a class that `use:` names so."""
    # Shapes are a matter of the class, but a plan holds a stage; this one is never called.
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
    )


def describe_type(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    """Describe a field's type in words, such as `list of text` or `whole number, at least 1`."""
    if "$ref" in schema:
        return describe_type(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    options = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    if options:
        rendered = [describe_type(option, definitions) for option in options]
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


def describe_catalogue(entries: list[StageEntry], width: int | None = None) -> list[str]:
    """Describe all stages, a line each where the width allows that."""
    rows = [("stage", "shape", "what it does")]
    rows += [(entry.use, entry.shape, entry.summary) for entry in entries]
    return list(align(rows, 3, width))


def describe_entry(entry: StageEntry, width: int | None = None) -> list[str]:
    """Describe one stage with its parameters, in lines of so many letters at most."""
    also = (", fans out" if entry.fans_out else "") + (", gathers" if entry.gathers else "")
    head = [f"{entry.use} ({entry.shape}{also}, version {entry.version})", ""]
    lines = [*head, *entry.description.splitlines(), *_describe_parameters(entry)]
    return [_fold(line, width) for line in lines]


def _fold(line: str, width: int | None) -> str:
    """Return a line that goes on below its own beginning where it is too long."""
    if width is None or len(line) <= width:
        return line
    indent = line[: len(line) - len(line.lstrip())]
    return fill(
        line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _describe_parameters(entry: StageEntry) -> Iterator[str]:
    yield ""
    if not entry.parameters:
        yield "It takes no parameters."
        return
    yield "parameters:"
    for each in entry.parameters:
        default = json.dumps(each.default)
        yield f"  {each.name} ({each.type}; {'required' if each.is_required else default})"
        if each.description:
            yield f"      {each.description}"
