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
STAGES = ROOT / "strandline_packs"
INDEX = ROOT / "strandline/stages"
# Modules that register several stages of another library at a time, under no class of their own.
ADAPTERS = {
    "data_juicer:": "strandline_packs.text.filters.adapters.data_juicer_ops",
    "datatrove:": "strandline_packs.text.filters.adapters.datatrove_steps",
}
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

Each is loaded when its name is looked up: a run needs a few of them, and a worker one.
{made}
"""

from strandline.plan.stages.registry import register_modules

register_modules(
    {{
{modules}
    }}
)
'''


def find_stages(stages: Path = STAGES) -> dict[str, str]:
    """Return the module of each stage's class, in the order of the classes' names."""
    found = {
        name: f"strandline_packs.{'.'.join(path.relative_to(stages).with_suffix('').parts)}"
        for path in stages.rglob("*.py")
        for name, _ in _list_classes(path)
    }
    return dict(sorted(found.items()))


def find_uses(stages: Path = STAGES) -> dict[str, str]:
    """Return the module of each registered name, in the order of the names."""
    found = {
        use: f"strandline_packs.{'.'.join(path.relative_to(stages).with_suffix('').parts)}"
        for path in stages.rglob("*.py")
        for _, uses in _list_classes(path)
        for use in uses
    }
    return dict(sorted(found.items()))


def _list_classes(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the classes of stages in a file, with the names that they are registered under."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            uses = [use for each in node.decorator_list for use in _list_uses(each)]
            if uses:
                yield node.name, uses


def _list_uses(decorator: ast.expr) -> Iterator[str]:
    if (
        isinstance(decorator, ast.Call)
        and isinstance(decorator.func, ast.Name)
        and decorator.func.id == "register"
    ):
        for argument in decorator.args:
            yield str(ast.literal_eval(argument))


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


def render_catalogue(uses: dict[str, str]) -> str:
    """Render `strandline/stages/catalogue.py`."""
    modules = sorted({**uses, **ADAPTERS}.items())
    lines = "\n".join(f'        "{use}": "{module}",' for use, module in modules)
    return _CATALOGUE.format(made=_MADE, modules=lines)


def render_index(stages: Path = STAGES) -> dict[Path, str]:
    """Render both files."""
    found = find_stages(stages)
    return {
        INDEX / "__init__.py": render_face(found),
        INDEX / "catalogue.py": render_catalogue(find_uses(stages)),
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
