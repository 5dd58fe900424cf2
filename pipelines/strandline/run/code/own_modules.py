"""Finds modules on this machine: their files, and the distributions that they belong to.

The search follows the rules of an import, but imports nothing.
"""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
from collections.abc import Sequence
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import Distribution, distributions
from pathlib import Path

from strandline.run.code.module_graph import OwnModule

STRANDLINE = frozenset({"strandline", "strandline_api", "strandline_packs"})
_LIBRARIES = frozenset({"site-packages", "dist-packages"})
_STDLIB = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})


class OwnModules:
    """Finds modules that do not belong to an installed distribution.

    Modules of an editable installation count as the user's own, because their files are outside the
    folders of packages. A file that a user copied into such a folder is the user's own, too,
    because no package gives it a version.
    """

    def __init__(self) -> None:
        self._specs: dict[str, ModuleSpec | None] = {}

    def find(self, name: str) -> OwnModule | None:
        """Return a module by name, or None if it is missing or belongs to a distribution."""
        spec = self._find_spec(name)
        if spec is None or self.is_installed(name):
            return None
        if _is_namespace(spec):
            # A namespace package has no file, so its text is empty.
            return OwnModule("", name, "")
        is_package = spec.submodule_search_locations is not None
        package = name if is_package else name.rpartition(".")[0]
        suffix = Path(spec.origin or "").suffix or ".py"
        file = f"{name.replace('.', '/')}{'/__init__' if is_package else ''}{suffix}"
        return OwnModule(file, package, _read_text(spec))

    def is_installed(self, name: str) -> bool:
        """Return True if a module is Python's, Strandline's, or an installed package's."""
        spec = self._find_spec(name)
        if self.is_ours(name):
            return True
        if spec is None or _is_namespace(spec):
            return False
        if not spec.has_location:
            return spec.origin in {"built-in", "frozen"}
        # The folder of installed packages may be inside the folder of the standard library.
        is_standard = _LIBRARIES.isdisjoint(Path(str(spec.origin)).parts) and any(
            Path(str(spec.origin)).is_relative_to(folder) for folder in _STDLIB
        )
        return is_standard or self.find_owner(name) is not None

    @staticmethod
    def is_ours(name: str) -> bool:
        """Return True if a module is Strandline's, even in an editable installation."""
        return name.partition(".")[0] in STRANDLINE

    def find_owner(self, name: str) -> Distribution | None:
        """Return the installed distribution to which a module belongs, if any."""
        root, top = self._find_root(name), name.partition(".")[0]
        if root is None:
            return None
        return _find_namesake(root, top) or _map_owners(root).get(top)

    def _find_root(self, name: str) -> str | None:
        """Return the folder from which a module's top-level package is imported, if any."""
        spec = self._find_spec(name)
        if spec is None or not spec.has_location or spec.origin is None:
            return None
        # The file of a package, `__init__.py`, is a level deeper than the file of a module.
        depth = len(name.split(".")) - (spec.submodule_search_locations is None)
        parents = Path(spec.origin).parents
        return str(parents[depth]) if depth < len(parents) else None

    def _find_spec(self, name: str) -> ModuleSpec | None:
        if name not in self._specs:
            self._specs[name] = self._look_up(name)
        return self._specs[name]

    def _look_up(self, name: str) -> ModuleSpec | None:
        if name == "__main__":  # `LiveCode` reads only the parts of a script that stages use
            return None
        if name in sys.modules:
            # `find_spec` raises ValueError for a loaded module without a spec.
            return getattr(sys.modules[name], "__spec__", None)
        above, _, _ = name.rpartition(".")
        try:
            if not above:
                return importlib.util.find_spec(name)
            # Find the parent package first: for a dotted name, `find_spec` would import parent
            # packages, which runs code.
            spec = self._find_spec(above)
            if spec is None or spec.submodule_search_locations is None:
                return None
            return _find_below(name, list(spec.submodule_search_locations))
        except (ImportError, AttributeError, ValueError):  # no module has this name
            return None


def _find_below(name: str, locations: Sequence[str]) -> ModuleSpec | None:
    try:
        return PathFinder.find_spec(name, locations)
    except KeyError:  # namespace package below a package that is not loaded
        last = name.rpartition(".")[2]
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [f"{each}/{last}" for each in locations]
        return spec


def _is_namespace(spec: ModuleSpec) -> bool:
    return spec.submodule_search_locations is not None and not spec.has_location


def _read_text(spec: ModuleSpec) -> str | None:
    """Return the source text of a module, or None if it has no text."""
    origin = Path(spec.origin or "")
    try:
        if origin.suffix == ".py" and origin.is_file():
            # `decode_source` respects the encoding that the first lines declare.
            return importlib.util.decode_source(origin.read_bytes())
        read = getattr(spec.loader, "get_source", None)
        return None if read is None else read(spec.name)  # also works for a module in a zip file
    except (OSError, ImportError, SyntaxError, UnicodeDecodeError):
        return None


@cache
def _find_namesake(root: str, top: str) -> Distribution | None:
    """Return the distribution with the name of its module, as most have, if it is installed.

    To read its files is faster than to read those of all distributions.
    """
    for each in distributions(path=[root], name=top):
        if top in _list_tops(each.read_text("RECORD") or ""):
            return each
    return None


@cache
def _map_owners(root: str) -> dict[str, Distribution]:
    """Return the distributions installed in a folder, by top-level module."""
    owners: dict[str, Distribution] = {}
    for each in distributions(path=[root]):
        text = each.read_text("RECORD")
        # Packages of an operating system have no file RECORD, so read `top_level.txt`. In other
        # folders, metadata without a RECORD belongs to a project's sources.
        if text is None and Path(root).name in _LIBRARIES:
            text = each.read_text("top_level.txt")
        owners |= dict.fromkeys(_list_tops(text or ""), each)
    return owners


def _list_tops(record: str) -> set[str]:
    # A line has a path, a hash and a size; the path begins with the top-level module.
    firsts = {line.partition(",")[0].partition("/")[0] for line in record.splitlines()}
    return {first.partition(".")[0] for first in firsts if not first.endswith(".dist-info")}
