"""The public names of Python, each with what code that uses it relies on, as data.

Pages and the test of compatibility are made from it. It must not know either of them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from typing import Any, ForwardRef, NamedTuple

from pydantic import BaseModel

MODULES = ("strandline", "strandline.stages", "strandline.errors")
BOUNDS = ("minimum", "exclusiveMinimum", "minLength", "minItems")
LIMITS = ("maximum", "exclusiveMaximum", "maxLength", "maxItems")

Entry = dict[str, Any]
_PYTHON = {
    "array": "list",
    "boolean": "bool",
    "integer": "int",
    "null": "None",
    "number": "float",
    "object": "dict",
    "string": "str",
}
_DEPTH = {"[": 1, "(": 1, "]": -1, ")": -1}
_FROM_BASES = {"builtins", "enum"}
_ATTRIBUTES = re.compile(r"^Attributes:\n((?: +.*\n?|\n)*)", re.MULTILINE)
_ATTRIBUTE = re.compile(r"^ {4}(\w[\w, ]*):", re.MULTILINE)


class PublicName(NamedTuple):
    """One name that code may rely on.

    Attributes:
        path: such as `strandline.Pipeline.run`; a parameter is `strandline.work(cpu)`.
        kind: `class`, `function`, `method`, `property`, `attribute`, `value` or `parameter`.
        entry: what is compared between releases: `is`, `takes`, `gives`, `default`, bounds, and
            `at`, the place of a parameter that may be given without its name.
        found: the object; None for a parameter or an attribute.
    """

    path: str
    kind: str
    entry: Entry
    found: Any = None


def read_names() -> Iterator[PublicName]:
    """Every public name, module by module, in the order of their `__all__`.

    Raises:
        AttributeError: a module lists a name that it does not have.
    """
    for module in map(import_module, MODULES):
        for name in module.__all__:
            names = read_name(f"{module.__name__}.{name}", getattr(module, name))
            # A stage that comes along is called by the engine alone: what makes one is promised.
            start = f"{module.__name__}.{name}("
            is_stage = module.__name__ == "strandline.stages"
            yield from (
                each
                for each in names
                if not is_stage or each.kind == "class" or each.path.startswith(start)
            )


def read_name(path: str, found: object) -> Iterator[PublicName]:
    """A name and, below it, what code may use of it."""
    if isinstance(found, type):
        yield PublicName(path, "class", {"is": _list_bases(found)}, found)
        yield from _read_construction(path, found)
        yield from _read_members(path, found)
    elif inspect.isfunction(found):
        yield from _read_function(path, found, "function")
    else:
        yield PublicName(path, "value", {"gives": [type(found).__name__]}, found)


@cache
def _list_public_classes() -> frozenset[type]:
    modules = map(import_module, MODULES)
    named = (getattr(module, name) for module in modules for name in module.__all__)
    return frozenset(found for found in named if isinstance(found, type))


def _list_bases(found: type) -> list[str]:
    """Names of what the class may be caught or passed as."""
    return [
        base.__name__
        for base in found.__mro__[1:-1]
        if base in _list_public_classes() or base.__module__ in _FROM_BASES
    ]


def _list_owners(found: type) -> list[type]:
    """The class and those of its bases that have no public name of their own."""
    if issubclass(found, BaseModel):  # of its bases, pydantic's own methods are not ours to promise
        return [found]
    ours = (base for base in found.__mro__[1:] if base.__module__.startswith("strandline"))
    return [found, *(base for base in ours if base not in _list_public_classes())]


def _read_construction(path: str, found: type) -> Iterator[PublicName]:
    """What the class is called with; for a stage that is what its `Params` has."""
    # Enums, errors and outcomes are handed out: code reads them and makes none.
    if issubclass(found, Enum | BaseException) or is_dataclass(found):
        return
    model = found if issubclass(found, BaseModel) else getattr(found, "Params", None)
    owners = () if model is found else _list_owners(found)
    if any({"__init__", "__new__"} & vars(owner).keys() for owner in owners):
        signature = inspect.signature(found)
        bases = (base for base in found.__mro__[1:] if base in _list_public_classes())
        if signature not in map(inspect.signature, bases):
            yield from _read_parameters(path, signature.parameters.values())
    if model is not None:
        yield from _read_fields(path, model)


def _read_fields(path: str, model: type[BaseModel]) -> Iterator[PublicName]:
    schema = model.model_json_schema(by_alias=False)
    for name, node in schema.get("properties", {}).items():
        entry: Entry = {"takes": _list_options(node, schema.get("$defs", {}))}
        if name not in schema.get("required", ()):
            entry["default"] = repr(node.get("default"))
        for part in (node, *node.get("anyOf", ())):
            entry |= {key: part[key] for key in (*BOUNDS, *LIMITS, "pattern") if key in part}
        yield PublicName(f"{path}({name_field(name)})", "parameter", entry)


def name_field(name: str) -> str:
    """What a field is called by: one whose name pydantic has itself ends in `_`."""
    return name.rstrip("_")


def _list_options(node: Entry, definitions: Entry) -> list[str]:
    """What a field of a JSON schema takes, word by word and type by type."""
    if "$ref" in node:
        return _list_options(definitions[node["$ref"].rpartition("/")[2]], definitions)
    if parts := node.get("anyOf") or node.get("oneOf") or node.get("allOf"):
        options = (option for part in parts for option in _list_options(part, definitions))
        return list(dict.fromkeys(options))
    if "const" in node or "enum" in node:
        return [repr(word) for word in node.get("enum", [node.get("const")])]
    kind = _PYTHON.get(node.get("type", ""), "Any")
    if "items" in node:
        return [f"list[{' | '.join(_list_options(node['items'], definitions))}]"]
    return [kind]


def _read_members(path: str, found: type) -> Iterator[PublicName]:
    # What a public base has is promised there, once.
    bases = [base for base in found.__mro__[1:] if base in _list_public_classes()]
    told = {name for base in bases for name in (*dir(base), *inspect.get_annotations(base))}
    for owner in _list_owners(found):
        for name, member in vars(owner).items():
            is_known = name in told and not isinstance(member, Enum)
            if not (is_known or name.startswith("_")):
                yield from _read_member(f"{path}.{name}", member)
        yield from _read_attributes(path, owner, told)
        told.update(vars(owner))


def _read_member(path: str, member: object) -> Iterator[PublicName]:
    function = getattr(member, "__func__", member)
    if isinstance(member, Enum):
        yield PublicName(path, "value", {"gives": [repr(member.value)]}, member)
    elif isinstance(member, property) and member.fget:
        given = inspect.signature(member.fget).return_annotation
        yield PublicName(path, "property", {"gives": split_options(given)}, member)
    elif inspect.isfunction(function):
        is_bound = not isinstance(member, staticmethod)
        yield from _read_function(path, function, "method", is_bound=is_bound)


def _read_attributes(path: str, owner: type, told: set[str]) -> Iterator[PublicName]:
    """Those that are annotated in the class, and those that its docstring names."""
    annotations = inspect.get_annotations(owner)
    section = _ATTRIBUTES.search(inspect.cleandoc(owner.__doc__ or ""))
    named = _ATTRIBUTE.findall(section[1]) if section else []
    names = dict.fromkeys([*annotations, *(name for line in named for name in line.split(", "))])
    fields = owner.model_fields if issubclass(owner, BaseModel) else {}
    for name in names:
        # An enum among them, such as an exit code, is told by its value.
        is_value = isinstance(vars(owner).get(name), Enum)
        if not (is_value or name.startswith("_") or name in told or name in fields):
            given = split_options(annotations[name]) if name in annotations else []
            yield PublicName(f"{path}.{name}", "attribute", {"gives": given} if given else {})


def _read_function(
    path: str, function: Callable[..., object], kind: str, *, is_bound: bool = False
) -> Iterator[PublicName]:
    signature = inspect.signature(function)
    entry: Entry = {"gives": split_options(signature.return_annotation)}
    if getattr(function, "__isabstractmethod__", False):
        entry["abstract"] = True
    yield PublicName(path, kind, entry, function)
    yield from _read_parameters(path, [*signature.parameters.values()][is_bound:])


def _read_parameters(path: str, parameters: Any) -> Iterator[PublicName]:  # noqa: ANN401 - a view
    for at, parameter in enumerate(parameters):
        entry: Entry = {"takes": split_options(parameter.annotation)}
        if parameter.kind in {parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD}:
            entry["at"] = at
        if parameter.default is not parameter.empty:
            entry["default"] = _format_default(parameter.default)
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}
        name = f"{stars.get(parameter.kind, '')}{parameter.name}"
        yield PublicName(f"{path}({name})", "parameter", entry)


def _format_default(default: object) -> str:
    return str(default) if isinstance(default, Enum) else repr(default)


def split_options(annotation: object) -> list[str]:
    """The types that an annotation allows, without the modules they come from."""
    if annotation is inspect.Parameter.empty:
        return ["Any"]
    if isinstance(annotation, ForwardRef):
        annotation = annotation.__forward_arg__
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"(?:\w+\.)+(\w)", r"\1", text)
    if text.startswith("ClassVar["):
        text = text.removeprefix("ClassVar[").removesuffix("]")
    options, depth = [""], 0
    for letter in text:
        depth += _DEPTH.get(letter, 0)
        if letter == "|" and not depth:
            options.append("")
        else:
            options[-1] += letter
    return [option.strip() for option in options]
