"""Digests the text of a Python module, and lists its imports and the external code it runs.

Comments and formatting do not count. All versions of Python that can parse the text return the same
digest. The module is pure: it reads no file and imports no user module.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from importlib.util import resolve_name
from typing import NamedTuple

_DIGEST_BYTES = 8  # short, because recipes keep a digest for each file
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
# Fields of syntax nodes that depend on the position of a node or on the notation, not the meaning.
_IGNORED = frozenset({"ctx", "kind", "type_comment", "type_ignores"})
_RUNS_TEXT = frozenset({"eval", "exec"})
_IMPORTS = frozenset({"import_module", "__import__"})


class SourceText(NamedTuple):
    """The properties of a module's text that determine its behavior.

    Attributes:
        digest: digest of the text without comments and formatting.
        imports: absolute names of modules, or of attributes in modules.
        exported: the names in `__all__`, if it is a literal.
        unread: functions such as `eval` that the text calls with code or module names that are not
            in the text.
    """

    digest: str
    imports: frozenset[str]
    exported: tuple[str, ...]
    unread: tuple[str, ...]


def read_source(text: str, package: str) -> SourceText:
    """Return the properties of a module's text that determine its behavior.

    Args:
        package: the package to which relative imports refer; empty if there is no package.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # an import would fail, too
        return SourceText(digest_text(text), frozenset(), (), ())
    digest, nodes = digest_tree(tree)
    return SourceText(
        digest,
        frozenset(list_imports(nodes, package)),
        tuple(_list_exported(tree)),
        tuple(sorted(set(list_unread(nodes)))),
    )


def digest_text(text: str) -> str:
    """Return the short digest of a text without parsing it."""
    # The text may contain unpaired surrogates, which UTF-8 can't encode without `surrogatepass`.
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()


def digest_tree(tree: ast.AST) -> tuple[str, list[ast.AST]]:
    """Return the short digest of a syntax tree, and all nodes that the digest covers."""
    parts: list[str] = []
    nodes: list[ast.AST] = []
    waiting: list[ast.AST | str] = [tree]  # no recursion, which would fail on a long sum
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            parts.append(item)
        else:
            nodes.append(item)
            # Reverse the items, because a stack returns the last item first.
            waiting += reversed(list(_render(item)))
    return digest_text(" ".join(parts)), nodes


def _render(node: ast.AST) -> Iterator[ast.AST | str]:
    # Do not use `ast.dump`: its notation and fields differ between versions of Python.
    yield type(node).__name__
    if isinstance(node, ast.Constant):
        # Use `!a`, because `repr` escapes different characters in different versions of Python.
        yield f"{type(node.value).__name__} {node.value!a}"
        return
    # Use cleaned docstrings, because formatters reindent docstrings and strip their lines.
    documented = ast.get_docstring(node) if isinstance(node, _DOCUMENTED) else None
    if documented is not None:
        yield f"text {[line.rstrip() for line in documented.splitlines()]!a}"
    for name in node._fields:
        value = None if name in _IGNORED else getattr(node, name, None)
        # Skip empty fields: later versions of Python add fields, which are empty for older code.
        if value is None or value == []:
            continue
        yield name
        values = value if isinstance(value, list) else [value]
        for each in values[documented is not None and name == "body" :]:
            if not (isinstance(node, ast.JoinedStr) and _is_empty(each)):
                yield each if isinstance(each, ast.AST) else ascii(each)
    # Mark the end of a node, to distinguish a nested node from a following node.
    yield ")"


def _is_empty(node: object) -> bool:
    """Return True if a segment of an f-string is empty. Python 3.12 adds such segments."""
    return isinstance(node, ast.Constant) and node.value == ""


def list_imports(nodes: Iterable[ast.AST], package: str) -> Iterator[str]:
    """Yield the absolute names that a syntax tree imports, including imports inside functions.

    `from a import b` yields both `a` and `a.b`, because the syntax does not show whether `b` is a
    module. `from a import *` yields `a.*`.
    """
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _resolve("." * node.level + (node.module or ""), package)
            yield from [base] if base else []
            yield from (f"{base}.{alias.name}" for alias in node.names if base)
        elif isinstance(node, ast.Call) and _name_called(node) in _IMPORTS:
            name = _read_text(node)
            yield from filter(None, [name and _resolve(name, package)])


def list_unread(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield called functions that run code or import modules from outside the text."""
    for node in nodes:
        if isinstance(node, ast.Call):
            name = _name_called(node)
            # Only plain names count: `model.eval()` and `table.eval(...)` are unrelated methods.
            is_plain = isinstance(node.func, ast.Name)
            if (name in _RUNS_TEXT and is_plain) or (name in _IMPORTS and _read_text(node) is None):
                yield name


def _name_called(node: ast.Call) -> str:
    function = node.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _read_text(node: ast.Call) -> str | None:
    """Return the first argument of a call if it is a string literal, otherwise None."""
    first = node.args[0] if node.args else None
    is_text = isinstance(first, ast.Constant) and isinstance(first.value, str)
    return str(first.value) if is_text and isinstance(first, ast.Constant) else None


def _resolve(name: str, package: str) -> str:
    try:
        return resolve_name(name, package) if name.startswith(".") else name
    except ImportError:  # relative import without a package, which will fail anyway
        return ""


def _list_exported(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(each, ast.Name) and each.id == "__all__" for each in targets):
            texts = (each for each in ast.walk(node) if isinstance(each, ast.Constant))
            yield from (each.value for each in texts if isinstance(each.value, str))
