"""Writes `strandline/stages.pyi`, which declares all stages for type checkers.

With `--check`, the program only compares the file with the packs. The packs list their stages, so
no stage is loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from strandline.plan.stages.packs import Pack

ROOT = Path(__file__).parent
PACKS = ROOT / "strandline_packs"
STUB = ROOT / "strandline/stages.pyi"
_WIDTH = 100  # maximum line length, as configured for the formatter
_TEXT = """# Made by `make crds` from the lists of the packs. Do not edit.
{imports}

__all__ = [
{names}
]
"""


def read_packs(packs: Path = PACKS) -> list[Pack]:
    """Return the packs of the source tree, whether or not they are installed."""
    names = sorted(path.parent.name for path in packs.glob("*/__init__.py"))
    return [import_module(f"{packs.name}.{name}").PACK for name in names]


def render_stub(packs: Iterable[Pack]) -> str:
    """Render the imports of all stage classes, as type checkers read them."""
    by_module: dict[str, set[str]] = {}
    for target in (target for pack in packs for target in pack.stages.values()):
        module, _, name = target.partition(":")
        by_module.setdefault(module, set()).add(name)
    imports = [
        _render_import(module, name)
        for module, names in sorted(by_module.items())
        for name in sorted(names)
    ]
    names = sorted(name for names in by_module.values() for name in names)
    return _TEXT.format(
        imports="\n".join(imports), names="\n".join(f'    "{name}",' for name in names)
    )


def _render_import(module: str, name: str) -> str:
    line = f"from {module} import {name} as {name}"
    whole = f"from {module} import (\n    {name} as {name},\n)"
    return line if len(line) <= _WIDTH else whole


def main() -> int:
    """Write the stub file, or report that the file is out of date."""
    content = render_stub(read_packs())
    if STUB.is_file() and STUB.read_text(encoding="utf-8") == content:
        return 0
    if "--check" in sys.argv:
        sys.stderr.write(f"{STUB.relative_to(ROOT.parent)} is out of date; run `make crds`\n")
        return 1
    STUB.write_text(content, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
