"""Writes the index of the stages that come along, from their files; `--check` only compares.

A class under `@register("name")` is a stage: its name, its module and that it is public stand in no
other list. It reads source, and loads no stage.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent
STAGES = ROOT / "strandline/stages"
# Modules that register several stages of another library at a time, under no class of their own.
ADAPTERS = ("text/filters/adapters/data_juicer_ops", "text/filters/adapters/datatrove_steps")
_MADE = "Made by `make crds` from the files of the stages. Do not edit."
_FACE = '''"""The stages that come with Strandline, one file each.

A stage knows tasks and its parameters; it must not know the ledger, the engine or the run. Their
classes are public here, and each is loaded when it is first used: a worker needs one of them.
{made}
"""

from typing import TYPE_CHECKING

from strandline.lazy_names import load_lazily

if TYPE_CHECKING:
{imports}

__all__ = [
{names}
]

_ROOMS = {{
{rooms}
}}

__getattr__, __dir__ = load_lazily(globals(), _ROOMS)
'''
_CATALOGUE = '''"""The stages that come with Strandline, known by name once this is imported.

Names need all of them; a worker needs one, and imports no more.
{made}
"""

{imports}
'''


def find_stages(stages: Path = STAGES) -> dict[str, str]:
    """Return the module of each stage's class, in the order of the classes' names."""
    found = {
        name: f"strandline.stages.{'.'.join(path.relative_to(stages).with_suffix('').parts)}"
        for path in stages.rglob("*.py")
        for name in _list_classes(path)
    }
    return dict(sorted(found.items()))


def _list_classes(path: Path) -> Iterator[str]:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and any(map(_is_registration, node.decorator_list)):
            yield node.name


def _is_registration(decorator: ast.expr) -> bool:
    return (
        isinstance(decorator, ast.Call)
        and isinstance(decorator.func, ast.Name)
        and decorator.func.id == "register"
    )


def render_face(stages: dict[str, str]) -> str:
    """Render `strandline/stages/__init__.py`."""
    by_module: dict[str, list[str]] = {}
    for name, module in stages.items():
        by_module.setdefault(module, []).append(name)
    imports = [
        f"    from {module} import {', '.join(names)}"
        for module, names in sorted(by_module.items())
    ]
    return _FACE.format(
        made=_MADE,
        imports="\n".join(imports),
        names="\n".join(f'    "{name}",' for name in stages),
        rooms="\n".join(f'    "{name}": "{module}",' for name, module in stages.items()),
    )


def render_catalogue(stages: dict[str, str]) -> str:
    """Render `strandline/stages/catalogue.py`."""
    adapters = [f"strandline.stages.{path.replace('/', '.')}" for path in ADAPTERS]
    modules = sorted({*stages.values(), *adapters})
    imports = "\n".join(f"import {module}" for module in modules)
    return _CATALOGUE.format(made=_MADE, imports=imports)


def render_index(stages: Path = STAGES) -> dict[Path, str]:
    """Render both files."""
    found = find_stages(stages)
    return {
        stages / "__init__.py": render_face(found),
        stages / "catalogue.py": render_catalogue(found),
    }


def main() -> int:
    """Write the files, or say which are out of date."""
    stale = {
        path: content
        for path, content in render_index().items()
        if path.read_text(encoding="utf-8") != content
    }
    for path, content in stale.items():
        if "--check" in sys.argv:
            sys.stderr.write(f"{path.relative_to(ROOT.parent)} is out of date; run `make crds`\n")
        else:
            path.write_text(content, encoding="utf-8")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    raise SystemExit(main())
