"""Signatures of all public names, read as the Python reference reads them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import griffe

ROOT = Path(__file__).parents[2]
MODULES = ("strandline", "strandline.stages", "strandline.errors")
Named = Any  # an object, or an alias with its target's attributes
EXTENSION = ROOT / "docs/griffe_stages.py"


@cache
def load_package() -> griffe.Module:
    """Load the runtime with the extension that the site uses."""
    loader = griffe.GriffeLoader(
        extensions=griffe.load_extensions(str(EXTENSION)),
        search_paths=[ROOT / "pipelines", ROOT / "crds"],
    )
    loader.load("strandline_api")
    package = loader.load("strandline")
    loader.load("strandline_packs")
    assert isinstance(package, griffe.Module)
    return package


def find_module(path: str) -> griffe.Module:
    """Return one of the public modules."""
    _, _, name = path.partition(".")
    found = load_package()[name] if name else load_package()
    assert isinstance(found, griffe.Module)
    return found


def list_names() -> Iterator[tuple[str, Named]]:
    """Yield the path of each public name and its object."""
    for module in MODULES:
        for name in find_module(module).exports or ():
            yield f"{module}.{name}", find_module(module)[str(name)]


def list_signatures() -> Iterator[str]:
    """Yield the lines of all public names."""
    public = {found.canonical_path for _, found in list_names()}
    for path, found in list_names():
        yield from render_signatures(path, found, public)


def render_signatures(path: str, found: Named, public: Collection[str] = ()) -> Iterator[str]:
    """Yield one line for a stage with its parameters, a function, or an attribute.

    For any other class, yield a line, and one for each public member. Members of public bases are
    left out: the lines of the base have them.
    """
    if found.is_function:
        abstract = "abstract " * ("abstractmethod" in found.labels)
        yield f"{path} = {abstract}{found.signature(return_type=True)}"
        return
    if not found.is_class:
        yield f"{path}: {_render_attribute(found)}"
        return
    bases = ", ".join(map(str, found.bases))
    if path.startswith("strandline.stages."):
        yield f"{path}: {bases}({', '.join(_list_fields(found))})"
        return
    yield f"{path}: {bases}".removesuffix(": ")
    for name, member in {**found.members, **found.inherited_members}.items():
        owner = member.canonical_path.rpartition(".")[0]
        is_own = owner == found.canonical_path or owner not in public
        if is_own and (name == "__init__" or (member.is_public and not member.is_special)):
            yield from render_signatures(f"{path}.{name}", member, public)


def _list_fields(stage: Named) -> Iterator[str]:
    for name, member in stage.all_members["Params"].all_members.items():
        if member.is_attribute and member.is_public and name != "model_config":
            yield f"{name}: {_render_attribute(member)}"


def _render_attribute(attribute: Named) -> str:
    annotation = "" if attribute.annotation is None else str(attribute.annotation)
    return annotation if attribute.value is None else f"{annotation} = {attribute.value}".strip()
