"""The Python reference, which mkdocstrings generates, contains every public name."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

import griffe
import pytest

from public_names import MODULES, ROOT, Named, list_names
from strandline import stages

PAGE = ROOT / "docs/api-python.md"
PUBLIC = dict(list_names())


def test_the_page_has_each_public_module() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    assert [line[4:] for line in lines if line.startswith("::: ")] == [*MODULES]


def test_every_public_name_has_a_docstring() -> None:
    missing = [path for path, found in PUBLIC.items() if not found.has_docstring]
    assert missing == ["strandline.__version__"]


@pytest.mark.parametrize("name", stages.__all__)
def test_the_reference_shows_all_parameters_of_a_stage(name: str) -> None:
    fields = getattr(import_module("strandline.stages"), name).Params.model_fields
    members = PUBLIC[f"strandline.stages.{name}"].all_members["Params"].members
    shown = {field for field, member in members.items() if member.has_docstring}
    assert shown == {field for field, info in fields.items() if info.description} == {*fields}


def test_the_reference_shows_the_name_of_a_stage_in_a_file() -> None:
    docstring = PUBLIC["strandline.stages.ReadFiles"].docstring
    assert docstring is not None
    assert docstring.value.endswith("In a file: `use: read-files`.")


def find_undescribed(path: str, found: Named) -> Iterator[str]:
    """Yield a function's undescribed arguments if its docstring describes other arguments."""
    if found.is_class and path.startswith("strandline."):
        for name, member in found.members.items():
            yield from find_undescribed(f"{path}.{name}", member)
    if not (found.is_class or found.is_function) or found.docstring is None:
        return
    sections = found.docstring.parse("google", warnings=False)
    described = {
        argument.name.lstrip("*")
        for section in sections
        if isinstance(section, griffe.DocstringSectionParameters)
        for argument in section.value
    }
    names = [each.name for each in found.parameters if each.name not in {"self", "cls"}]
    yield from (f"{path}({name})" for name in names if described and name not in described)


def test_docstrings_describe_all_arguments_or_none() -> None:
    assert [each for path, found in PUBLIC.items() for each in find_undescribed(path, found)] == []


def test_an_argument_without_a_description_is_found() -> None:
    code = 'def go(one, other):\n    """Go.\n\n    Args:\n        one: described.\n    """\n'
    with griffe.temporary_visited_module(code) as module:
        assert [*find_undescribed("go", module["go"])] == ["go(other)"]
