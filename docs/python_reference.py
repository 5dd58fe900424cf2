"""Writes docs/api-python.md from the public names and their docstrings, or checks what is there."""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from public_names import MODULES, PublicName, name_field, read_names
from strandline.cli.views.stage_catalogue import read_entry
from strandline.plan.registry import list_registered
from strandline_api.outcome.exit_codes import ExitCode

ROOT = Path(__file__).resolve().parents[1]
PAGE = "docs/api-python.md"

_INTRODUCTION = """\
<!-- Made by `make reference` from the docstrings. Do not edit. -->

# Python reference

Everything that may be imported: from `strandline`, `strandline.stages` and `strandline.errors`.
[From Python](python.md) shows how they are used, and says [what stays](python.md#what-stays).
"""
_ABOUT = {
    "strandline.stages": """\
Parameters are given by name; in a file they have the same names in camelCase, and a stage is meant
by the name behind `use:`. Beside a stage's name stands how its answer stands to its input: one task
to none, one or many (`1→0|1|N`), a batch to as many (`N→N`).
""",
    "strandline.errors": """\
What a run may raise. `except` takes each by any name that it is also; the exit code is that of a
command that it ends. A `StrandlineError` has that as `exit_code`, and as `cause` a word of the
[table of causes](failures.md#causes) where more is known, else None; `is_lasting` is True
where another attempt on the same machine would end the same way. A `SpecError` has `problems`,
each with `path`, `message` and `suggestion`.
""",
}
_SECTION = re.compile(r"^(Args|Attributes|Returns|Raises):$", re.MULTILINE)
_ITEM = re.compile(r"^ {4}(\S.*?): +(.*(?:\n {5,}.*)*)", re.MULTILINE)
_KINDS = ("Stage", "StrEnum", "IntEnum")
_EVERY_ERROR = ("Exception", "BaseException")
_WIDTH = 96
_TITLES = {"Args": "Arguments", "Returns": "Gives", "Raises": "Raises"}
_MEASURES = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "minItems": "at least {} of them",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "maxItems": "at most {} of them",
}


class Words(NamedTuple):
    """A docstring, taken apart.

    Attributes:
        text: what stands before the first section.
        items: of each section the names and what is said of them; of `Returns` under "".
    """

    text: str
    items: dict[str, dict[str, str]]


def read_words(docstring: str) -> Words:
    """Take a docstring in Google's style apart."""
    text, *rest = _SECTION.split(inspect.cleandoc(docstring))
    items: dict[str, dict[str, str]] = {}
    for title, body in zip(rest[::2], rest[1::2], strict=True):
        found = {"": body} if title == "Returns" else dict(_ITEM.findall(body))
        items[title] = {name: " ".join(said.split()) for name, said in found.items()}
    return Words(text.strip(), items)


def render_page() -> str:
    """Write the whole page."""
    lines = [_INTRODUCTION]
    for module in MODULES:
        lines += [f"## `{module}`\n", *filter(None, [_ABOUT.get(module)])]
        names = [name for name in read_names() if _split_path(name.path)[0] == module]
        groups = [
            list(group) for _, group in groupby(names, lambda name: _split_path(name.path)[1])
        ]
        if module == "strandline.errors":
            lines.append(_format_errors(group[0] for group in groups))
        else:
            lines += [line for group in groups for line in _describe(group)]
    return "\n".join(lines)


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Write the page, or with `--check` exit 1 where it is out of date."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="example: docs/python_reference.py --check"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if out of date")
    is_check = parser.parse_args(arguments).check
    page, text = root / PAGE, render_page()
    if page.is_file() and page.read_text(encoding="utf-8") == text:
        return 0
    if is_check:
        sys.stderr.write(f"{page.name} is out of date; run: make reference\n")
        return 1
    page.write_text(text, encoding="utf-8")
    return 0


def _split_path(path: str) -> tuple[str, str]:
    """The module and the name in it: `strandline` and `Pipeline` of its method's path."""
    module = max((name for name in MODULES if path.startswith(f"{name}.")), key=len)
    return module, re.split(r"[.(]", path.removeprefix(f"{module}."))[0]


def _describe(group: list[PublicName]) -> Iterator[str]:
    """One name of a module, and all that belongs to it."""
    first, below = group[0], group[1:]
    yield f"### `{_split_path(first.path)[1]}`\n"
    if first.kind == "class":
        yield from _describe_class(first, below)
    elif first.kind == "function":
        yield from _describe_call(first, below)
    else:
        yield "The version of the package, such as `0.2.0`.\n"


def _describe_class(first: PublicName, below: list[PublicName]) -> Iterator[str]:
    words, fields = read_words(first.found.__doc__), _find_fields(first.found)
    called = _parameters_of(first, below)
    positions = [each for each in called if _last_name(each) not in fields]
    if positions:
        yield _format_call(first, positions)
    yield from _list_kind(first)
    yield f"{words.text}\n"
    yield from _list_sections(words)
    if fields:
        yield _format_fields((each for each in called if each not in positions), fields)
    yield from _list_attributes(_add_inherited(first.found, words), below)
    for each in below:
        if each.kind == "method":
            yield f"#### `{_split_path(first.path)[1]}.{_last_name(each)}`\n"
            yield from _describe_call(each, below)


def _describe_call(name: PublicName, below: list[PublicName]) -> Iterator[str]:
    words = read_words(name.found.__doc__)
    yield _format_call(name, _parameters_of(name, below))
    yield f"{words.text}{' Subclasses have to write it.' if name.entry.get('abstract') else ''}\n"
    yield from _list_sections(words)


def _parameters_of(owner: PublicName, below: list[PublicName]) -> list[PublicName]:
    return [each for each in below if each.path.startswith(f"{owner.path}(")]


def _last_name(name: PublicName) -> str:
    return re.split(r"[.(]", name.path)[-1].rstrip(")")


def _find_fields(found: type) -> dict[str, FieldInfo]:
    """What a class is called with by name: a model's own fields, or those of a stage's `Params`."""
    model = found if issubclass(found, BaseModel) else getattr(found, "Params", None)
    fields = {} if model is None else model.model_fields
    return {name_field(name): field for name, field in fields.items()}


def _format_call(name: PublicName, parameters: list[PublicName]) -> str:
    """The signature as a block, on one line or with a line for each parameter."""
    texts, is_positional = [], True
    for each in parameters:
        if is_positional and "at" not in each.entry and "(*" not in each.path:
            texts.append("*")
        is_positional = is_positional and "at" in each.entry
        default = f" = {each.entry['default']}" if "default" in each.entry else ""
        texts.append(f"{_last_name(each)}: {' | '.join(each.entry['takes'])}{default}")
    gives = f" -> {' | '.join(name.entry['gives'])}" if "gives" in name.entry else ""
    line = f"{_last_name(name)}({', '.join(texts)}){gives}"
    if len(line) > _WIDTH:
        listed = "".join(f"    {text},\n" for text in texts)
        line = f"{_last_name(name)}(\n{listed}){gives}"
    return f"```text\n{line}\n```\n"


def _list_kind(name: PublicName) -> Iterator[str]:
    """What a class is a kind of, and how a stage is meant in a file."""
    uses = {found: use for use, found in list_registered().items()}
    if name.found in uses:
        entry = read_entry(uses[name.found], name.found)
        yield f"`use: {entry.use}`, {entry.shape}{', gathers' if entry.gathers else ''}\n"
    elif kinds := [base for base in name.entry["is"] if base in _KINDS]:
        yield f"A kind of `{kinds[0]}`.\n"


def _list_sections(words: Words) -> Iterator[str]:
    for section, title in _TITLES.items():
        items = words.items.get(section, {})
        if section == "Returns" and items:
            yield f"{title}: {items['']}\n"
        elif items:
            lines = [f"- {_quote(names)}: {said}" for names, said in items.items()]
            yield "\n".join([f"{title}:\n", *lines, ""])


def _quote(names: str) -> str:
    """Names in a docstring's list as code; words behind them, such as `and others`, stay."""
    listed, *rest = re.split(r"( and )", names, maxsplit=1)
    return ", ".join(f"`{name}`" for name in listed.split(", ")) + "".join(rest)


def _format_fields(parameters: Iterable[PublicName], fields: dict[str, FieldInfo]) -> str:
    rows = ["| parameter | type | default | meaning |", "|---|---|---|---|"]
    for each in parameters:
        said = " ".join((fields[_last_name(each)].description or "").split())
        kind = " or ".join(f"`{option}`" for option in each.entry["takes"])
        bounds = [_MEASURES[key].format(each.entry[key]) for key in _MEASURES if key in each.entry]
        default = f"`{each.entry['default']}`" if "default" in each.entry else "required"
        cells = (f"`{_last_name(each)}`", ", ".join([kind, *bounds]), default, said)
        rows.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    return "\n".join([*rows, ""])


def _add_inherited(found: type, words: Words) -> Words:
    """Add what bases say of the attributes that they give a class."""
    bases = [base for base in found.__mro__[1:] if base.__module__.startswith("strandline")]
    told: dict[str, str] = {}
    for base in reversed(bases):
        told |= read_words(base.__doc__ or "").items.get("Attributes", {})
    own = words.items.get("Attributes", {})
    return Words(words.text, {**words.items, "Attributes": {**told, **own}})


def _list_attributes(words: Words, below: list[PublicName]) -> Iterator[str]:
    """What is read from an object, or the values of an enum: a line each."""
    said = {
        name: text
        for names, text in words.items.get("Attributes", {}).items()
        for name in names.split(", ")
    }
    lines = []
    for each in below:
        name = _last_name(each)
        kind = " | ".join(each.entry.get("gives", ()))
        if each.kind == "property":
            said[name] = " ".join(read_words(each.found.__doc__).text.split())
        elif each.kind == "value":
            said.setdefault(name, getattr(each.found, "meaning", ""))
        if each.kind in {"property", "attribute", "value"}:
            text = f": {said[name]}" if said.get(name) else ""
            lines.append(f"- `{name}`{f' (`{kind}`)' if kind else ''}{text}")
    if lines:
        yield "\n".join(["Attributes:\n", *lines, ""])


def _format_errors(errors: Iterable[PublicName]) -> str:
    rows = ["| error | is also | exit code | what happened |", "|---|---|---|---|"]
    for error in errors:
        bases = [f"`{base}`" for base in error.entry["is"] if base not in _EVERY_ERROR]
        code = getattr(error.found, "exit_code", ExitCode.BAD_SPEC)  # only `SpecError` has none
        said = " ".join(read_words(error.found.__doc__).text.split())
        rows.append(f"| `{_last_name(error)}` | {', '.join(bases)} | {int(code)} | {said} |")
    return "\n".join([*rows, ""])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
