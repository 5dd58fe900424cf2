"""Digests code that no module's text determines: scripts, notebooks, and closures.

The digest of a function covers its source lines and the values it uses: defaults, closures, and
globals. The digest of another library's object covers only its class, because its content may
differ between processes.
"""

from __future__ import annotations

import ast
import dis
import linecache
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from enum import Enum
from functools import cache, partial
from inspect import getattr_static, unwrap
from pathlib import PurePath
from types import CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

from strandline.run.code.source_text import digest_text, digest_tree, list_imports, list_unread

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...), range)
_NODES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
# Modules that generate methods for dataclasses and named tuples. Skip such methods: the class
# determines them, and their code differs between versions of Python.
_GENERATORS = ("collections", "dataclasses", "namedtuple_", "typing")
_CONTAINERS = (Mapping, list, tuple, set, frozenset)
_WRAPPED = (staticmethod, classmethod)
_CALLABLE = (FunctionType, MethodType, partial, type)


class LiveCode:
    """Visits objects and collects everything that determines their behavior.

    Args:
        is_own, is_installed: whether a module with this name is the user's own, or is installed.

    Attributes:
        modules: the user's own modules that the objects use.
        has_values: True if the text of modules does not fully determine the behavior.
        unread: functions without source text, and functions that execute code from strings.
    """

    def __init__(self, is_own: Callable[[str], bool], is_installed: Callable[[str], bool]) -> None:
        self._is_own = is_own
        self._is_installed = is_installed
        self._parts: list[str] = []
        self._seen: dict[int, object] = {}  # objects by ID; keep them alive, because IDs are reused
        self.modules: set[str] = set()
        self.has_values = False
        self.unread: set[str] = set()

    @property
    def digest(self) -> str:
        """Short digest of all visited objects."""
        return digest_text(" ".join(self._parts))

    def visit_attributes(self, owner: object) -> None:
        """Visit the functions and classes among an instance's attributes."""
        for name, value in sorted(vars(owner).items()):
            if isinstance(value, _CALLABLE):
                self.has_values = True
                self._visit_named(name, value)

    def visit(self, value: Any) -> None:  # noqa: ANN401 - a case for each kind
        """Visit a value and everything in it."""
        if isinstance(value, Enum):
            self._parts.append(f"{type(value).__qualname__} {value.name}")
        elif isinstance(value, _PLAIN):
            self._parts.append(f"{type(value).__name__} {value!a}")
        elif isinstance(value, PurePath):
            self._parts.append(f"path {str(value)!a}")
        elif isinstance(value, ModuleType):
            self._refer(value.__name__, "")
        elif isinstance(value, re.Pattern):  # its `repr` truncates long patterns
            self._visit_all("pattern", (value.pattern, value.flags))
        elif isinstance(value, partial):
            self._visit_all("partial", (value.func, value.args, value.keywords))
        elif isinstance(value, property):
            self._visit_all("property", (value.fget, value.fset))
        elif isinstance(value, MethodType | staticmethod | classmethod):
            self.visit(value.__func__)
        elif id(value) in self._seen:
            self._parts.append("again")
        else:
            self._seen[id(value)] = value
            self._visit_new(value)

    def _visit_new(self, value: Any) -> None:  # noqa: ANN401 - of any class
        if isinstance(value, FunctionType):
            self._visit_function(value)
        elif isinstance(value, type):
            self._visit_class(value)
        elif isinstance(value, _CONTAINERS):
            self._visit_container(value)
            # Forget the container: equal constants may be one object or several, so only cycles may
            # be shortened to "again".
            del self._seen[id(value)]
        else:
            self._visit_object(value)

    def _visit_container(self, value: Any) -> None:  # noqa: ANN401 - a case for each kind
        self.visit(type(value))  # a subclass, such as a named tuple, may have methods
        if isinstance(value, Mapping):
            self._visit_all("dict", (part for item in value.items() for part in item))
        elif isinstance(value, list | tuple):
            self._visit_all(type(value).__name__, value)
        else:
            # Sort, because the order of a set differs between processes.
            self._visit_all("set", sorted(value, key=ascii))

    def _visit_object(self, value: object) -> None:
        """Visit an object's class. Visit the attributes too if the class is the user's own."""
        kind = type(value)
        self.visit(kind)
        self._visit_wrapped(value, {"func": getattr_static(value, "func", None)})
        is_own = kind is SimpleNamespace or not self._is_installed(kind.__module__)
        if is_own and hasattr(value, "__dict__"):
            self._visit_all(
                "object", (part for item in sorted(vars(value).items()) for part in item)
            )

    def _visit_wrapped(self, wrapper: object, more: Mapping[str, object]) -> None:
        """Visit the functions that a library's decorator has wrapped."""
        held = [getattr_static(wrapper, "__wrapped__", None), *more.values()]
        for value in held:
            # Visit values of plain dictionaries only: other mappings may be caches, whose contents
            # change between calls.
            for each in value.values() if type(value) is dict else [value]:
                if isinstance(each, _CALLABLE):
                    self.visit(each)

    def _visit_all(self, kind: str, values: Iterable[object]) -> None:
        self._parts.append(f"{kind}(")
        for value in values:
            self.visit(value)
        self._parts.append(")")

    def _visit_named(self, name: str, value: object) -> None:
        self._parts.append(f"{name}:")
        self.visit(value)

    def _refer(self, module: str, name: str) -> bool:
        """Record a name in a module. Return True if the module's text determines its behavior."""
        self._parts.append(f"{module}.{name}")
        if self._is_own(module):
            self.modules.add(module)
        # A closure's behavior also depends on its values, which are not in any text.
        is_whole = self._is_own(module) and "<locals>" not in name
        if self._is_installed(module) or is_whole:
            return True
        self.has_values = True
        return False

    def _visit_class(self, kind: type) -> None:
        if self._refer(kind.__module__, kind.__qualname__):
            return
        for base in kind.__bases__:
            self.visit(base)
        for name, value in sorted(vars(kind).items()):
            is_code = isinstance(value, (*_CALLABLE, *_WRAPPED, property))
            # Skip names that Python and pydantic add, because they differ between versions.
            if (is_code or not name.startswith(("__", "_abc_"))) and not _is_generated(value):
                self._visit_named(name, value)

    def _visit_function(self, function: FunctionType) -> None:
        code, names = function.__code__, function.__globals__
        module = str(names.get("__name__"))
        # Use the name in `__code__`, because decorators overwrite the function's `__name__`.
        cells = dict(_list_cells(function))
        if self._refer(module, code.co_qualname):
            self._visit_wrapped(function, cells)
            return
        for name, value in cells.items():
            self._visit_named(name, value)
        self._visit_all("defaults", (function.__defaults__, function.__kwdefaults__))
        if self._is_own(module):
            return
        node = find_node(code, names)
        if node is None:
            self.unread.add(f"{code.co_qualname} can't be read")
            return
        digest, nodes = digest_tree(node)
        self._parts.append(digest)
        self.unread.update(f"{code.co_qualname} calls {name}" for name in list_unread(nodes))
        self.modules.update(list_imports(nodes, str(names.get("__package__") or "")))
        used = {each.id for each in nodes if isinstance(each, ast.Name)}
        for name in sorted(used - _list_locals(code)):
            if name in names:
                self._visit_named(name, names[name])


def _is_generated(value: object) -> bool:
    function = value.__func__ if isinstance(value, _WRAPPED) else value
    function = unwrap(function) if isinstance(function, FunctionType) else function
    if not isinstance(function, FunctionType):
        return False
    module = str(function.__globals__.get("__name__"))
    is_made = function.__code__.co_qualname.startswith("__create_fn__.")
    return is_made or module.startswith(_GENERATORS)


def _list_locals(code: CodeType) -> set[str]:
    """Return the names that are only local variables, in a function and in those within it.

    A global of the same name, such as another cell's variable in a notebook, has no effect.
    """
    codes = [code]
    for each in codes:
        codes += [inner for inner in each.co_consts if isinstance(inner, CodeType)]
    bound = {
        name for each in codes for name in (*each.co_varnames, *each.co_cellvars, *each.co_freevars)
    }
    return bound - {
        step.argval for each in codes for step in dis.Bytecode(each) if _is_global(step)
    }


def _is_global(step: dis.Instruction) -> bool:
    return step.opname in {"LOAD_GLOBAL", "LOAD_NAME"}


def _list_cells(function: FunctionType) -> Iterator[tuple[str, object]]:
    """Yield the values of a closure by name, except for empty cells."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for name, cell in cells:
        with suppress(ValueError):
            yield name, cell.cell_contents


def find_node(code: CodeType, names: dict[str, Any]) -> _FunctionNode | None:
    """Return the syntax tree of a function, or None if its source text is missing.

    Args:
        names: globals of the function, needed to find the text of a module in a zip file.
    """
    text = "".join(linecache.getlines(code.co_filename, names))
    found = [node for node in _list_functions(text) if _find_line(node) == code.co_firstlineno]
    if code.co_name != "<lambda>":
        named = (node for node in found if not isinstance(node, ast.Lambda))
        return next((node for node in named if node.name == code.co_name), None)
    lambdas = [node for node in found if isinstance(node, ast.Lambda) and _holds(node, code)]
    # If lambdas are nested, the smallest that matches is the function itself.
    return min(lambdas, key=_measure, default=None)


@cache
def _list_functions(text: str) -> tuple[_FunctionNode, ...]:
    try:
        return tuple(node for node in ast.walk(ast.parse(text)) if isinstance(node, _NODES))
    except (SyntaxError, ValueError):
        return ()


def _find_line(node: _FunctionNode) -> int:
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return min([node.lineno, *(each.lineno for each in decorators)])


def _holds(node: ast.Lambda, code: CodeType) -> bool:
    """Return True if the source range of a lambda contains all instructions of the code.

    The check is needed because a line may have several lambdas.
    """
    body = node.body
    begin, end = (body.lineno, body.col_offset), (body.end_lineno or 0, body.end_col_offset or 0)
    positions = (each for each in code.co_positions() if None not in each and each[3])
    return all(begin <= (each[0], each[2]) and (each[1], each[3]) <= end for each in positions)


def _measure(node: ast.Lambda) -> tuple[int, int]:
    lines = (node.end_lineno or 0) - node.lineno
    return lines, (node.end_col_offset or 0) - node.col_offset
