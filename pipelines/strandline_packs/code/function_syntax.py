"""Finds functions in Python source, with their position, signature, and documentation.

This module takes text, returns rows, and does no I/O. The source is parsed, never run or imported.
"""

from __future__ import annotations

import ast
import gc
import re
import warnings
from collections.abc import Iterator
from typing import NamedTuple

# Matches brackets and comments after the last argument, up to the colon. Possessive quantifiers
# (`*+`) avoid backtracking in a header without a colon.
_COLON = re.compile(r"(?:[^:#]|#[^\n]*+)*+:")
_SPACES = re.compile(r"\s+")
# Code that is nested too deeply raises RecursionError or MemoryError.
_UNPARSABLE = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError)

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


class UnparsableSourceError(ValueError):
    """Raised if the text is not valid Python for this interpreter's parser."""


class FunctionRow(NamedTuple):
    """A row that describes one function.

    Attributes:
        name: qualified within the module, such as `Reader.read`.
        lineno, end_lineno: first (decorators included) and last line, from 1.
        signature: from `def` to the return annotation, on one line.
        docstring: without indentation, or None.
        source: the whole lines, decorators included, indentation removed.
        decorators: as written, without the `@`.
        is_async: an `async def`.
        is_method: defined directly in a class.
    """

    name: str
    lineno: int
    end_lineno: int
    signature: str
    docstring: str | None
    source: str
    decorators: list[str]
    is_async: bool
    is_method: bool


def list_functions(text: str, *, nested: bool = False) -> list[FunctionRow]:
    r"""Return the functions and methods of a module, in the order of their lines.

    Args:
        text: the module, with lines that end in `\n`.
        nested: also list functions inside functions, as `outer.<locals>.inner`.

    Raises:
        UnparsableSourceError: the text is not Python, or nested too deeply for the parser.
    """
    try:
        # The parser warns about invalid escapes such as `\d`, which are common in foreign code.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = _parse(text)
        lines = text.split("\n")
        found = _find_functions(tree.body, "", in_class=False, nested=nested)
        return [_describe(lines, node, name, in_class=method) for node, name, method in found]
    except _UNPARSABLE as error:
        raise UnparsableSourceError(type(error).__name__) from error


def _parse(text: str) -> ast.Module:
    """Parse the module with the garbage collector paused.

    A syntax tree has thousands of objects and no cycles, so collecting them wastes time.
    """
    is_looking = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        if is_looking:
            gc.enable()


def _find_functions(
    body: list[ast.stmt], prefix: str, *, in_class: bool, nested: bool
) -> Iterator[tuple[FunctionNode, str, bool]]:
    for node in body:
        if isinstance(node, FunctionNode):
            yield node, prefix + node.name, in_class
            if nested:
                inner = f"{prefix}{node.name}.<locals>."
                yield from _find_functions(node.body, inner, in_class=False, nested=True)
        elif isinstance(node, ast.ClassDef):
            inner = f"{prefix}{node.name}."
            yield from _find_functions(node.body, inner, in_class=True, nested=nested)
        else:
            for block in _list_blocks(node):
                yield from _find_functions(block, prefix, in_class=in_class, nested=nested)


def _list_blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield the statement lists inside an `if`, `try`, `with`, loop or `match`."""
    yield from _own_block(node, "body")
    for name in ("handlers", "cases"):
        for part in getattr(node, name, ()):
            yield part.body
    yield from _own_block(node, "orelse")
    yield from _own_block(node, "finalbody")


def _own_block(node: ast.AST, name: str) -> Iterator[list[ast.stmt]]:
    block = getattr(node, name, None)
    if isinstance(block, list):
        yield block


def _describe(lines: list[str], node: FunctionNode, name: str, *, in_class: bool) -> FunctionRow:
    # `lineno` is the line of `def`, below the decorators.
    first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
    last = node.end_lineno or node.lineno
    return FunctionRow(
        name=name,
        lineno=first,
        end_lineno=last,
        signature=_read_signature(lines, node),
        docstring=ast.get_docstring(node, clean=True),
        source=_remove_indent(lines[first - 1 : last]),
        decorators=[_cut(lines, item) for item in node.decorator_list],
        is_async=isinstance(node, ast.AsyncFunctionDef),
        is_method=in_class,
    )


def _remove_indent(lines: list[str]) -> str:
    """Remove the first line's indentation from all lines; less indented lines stay unchanged."""
    indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
    if not indent:
        return "\n".join(lines)
    return "\n".join(line.removeprefix(indent) for line in lines)


def _read_signature(lines: list[str], node: FunctionNode) -> str:
    """Return the function header on one line, without its colon."""
    start = (node.lineno, node.col_offset)
    header = _slice(lines, start, _position(node.body[0]))
    ends = [
        (item.end_lineno or 0, item.end_col_offset or 0)
        for item in (*ast.iter_child_nodes(node.args), node.returns)
        if isinstance(item, ast.arg | ast.expr)
    ]
    # Start behind the last argument: defaults and annotations may contain colons (`x=d[1:2]`).
    skip = len(_slice(lines, start, max(ends))) if ends else header.find("(")
    found = _COLON.match(header, skip)
    text = header[: found.end() - 1] if found else "#"
    # Joining the lines would break a header with comments or backslashes, so `ast` formats such a
    # header.
    return (
        _format_signature(node) if "#" in text or "\\\n" in text else _SPACES.sub(" ", text).strip()
    )


def _format_signature(node: FunctionNode) -> str:
    keyword = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{keyword} {node.name}({ast.unparse(node.args)}){returns}"


def _position(node: ast.stmt) -> tuple[int, int]:
    # A decorated definition at the start of the body begins with the decorator.
    if isinstance(node, FunctionNode | ast.ClassDef) and node.decorator_list:
        return node.decorator_list[0].lineno, node.decorator_list[0].col_offset
    return node.lineno, node.col_offset


def _cut(lines: list[str], node: ast.expr) -> str:
    end = (node.end_lineno or node.lineno, node.end_col_offset or 0)
    return _slice(lines, (node.lineno, node.col_offset), end)


def _slice(lines: list[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    """Return the text between two (line, column) positions: line from 1, column in UTF-8 bytes."""
    if start[0] == end[0]:
        line = lines[start[0] - 1]
        if line.isascii():  # columns count UTF-8 bytes, which equal characters in ASCII
            return line[start[1] : end[1]]
        return line.encode()[start[1] : end[1]].decode()
    first = lines[start[0] - 1].encode()[start[1] :].decode()
    last = lines[end[0] - 1].encode()[: end[1]].decode()
    return "\n".join([first, *lines[start[0] : end[0] - 1], last])
