"""Follows the imports of the user's own modules, and digests each module.

The module is pure: the caller passes the function that finds modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from strandline.run.code.source_text import SourceText, read_source


class OwnModule(NamedTuple):
    """A module that belongs to no installed package.

    Attributes:
        file: path below the folder from which the module is imported; empty for a namespace
            package.
        package: the package to which relative imports refer.
        text: source text, or None if there is no readable text, as for a C extension.
    """

    file: str
    package: str
    text: str | None


FindModule = Callable[[str], OwnModule | None]


class OwnCode(NamedTuple):
    """Code and files that determine a stage's output.

    Attributes:
        digests: digests by file name, and versions by package name.
        unread: sentences about code that could not be digested, such as `words.py calls eval`.
    """

    digests: dict[str, str]
    unread: tuple[str, ...]


class ModuleGraph:
    """Modules and their imports. Each module is read only once.

    Args:
        find: returns a module by its absolute name, or None if no own module has that name.
    """

    def __init__(self, find: FindModule) -> None:
        self._find = find
        self._found: dict[str, tuple[OwnModule, SourceText | None] | None] = {}

    def collect(self, names: Iterable[str]) -> OwnCode:
        """Return the code of modules and of everything they import."""
        digests: dict[str, str] = {}
        unread: set[str] = set()
        for module, source in self._walk(names):
            if source is None:
                unread.add(f"{module.file} can't be read")
            elif module.file:
                digests[module.file] = source.digest
                unread.update(f"{module.file} calls {name}" for name in source.unread)
        return OwnCode(digests, tuple(sorted(unread)))

    def is_own(self, name: str) -> bool:
        """Return True if one of the user's own modules has this name."""
        return self._look_up(name) is not None

    def _walk(self, names: Iterable[str]) -> Iterator[tuple[OwnModule, SourceText | None]]:
        waiting, seen = list(names), set[str]()
        while waiting:
            # An import of `a.b.c` also runs `a` and `a.b`.
            for name in _list_parents(waiting.pop()):
                found = self._look_up(name)
                if found is None:  # not a module of the user: an attribute, or an installed package
                    break
                if name not in seen:
                    seen.add(name)
                    yield found
                    waiting += self._list_imports(found[1])

    def _look_up(self, name: str) -> tuple[OwnModule, SourceText | None] | None:
        if name not in self._found:
            module = self._find(name)
            text = None if module is None else module.text
            source = read_source(text, module.package) if module and text is not None else None
            self._found[name] = None if module is None else (module, source)
        return self._found[name]

    def _list_imports(self, source: SourceText | None) -> Iterator[str]:
        for name in source.imports if source else ():
            above, _, last = name.rpartition(".")
            if last != "*":
                yield name
                continue
            yield above
            # A star import also imports the submodules that the package exports.
            found = self._look_up(above)
            exported = found[1].exported if found and found[1] else ()
            yield from (f"{above}.{each}" for each in exported)


def _list_parents(name: str) -> Iterator[str]:
    """Yield `a`, `a.b` and `a.b.c` for `a.b.c`."""
    parts = name.split(".")
    yield from (".".join(parts[: count + 1]) for count in range(len(parts)))
