"""Computes expressions over the columns of a table, in a small subset of Python's syntax.

Python's parser reads an expression, a list of allowed node types restricts it, and Arrow computes
the result. No part of an expression is executed as Python. This module does no I/O, and must not
depend on stages.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from strandline.data.tables.columns import find_field, holds_text

# An Arrow array, chunked array, or scalar.
Values = Any

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
}
# Checked functions raise an error on overflow; Arrow's plain functions wrap around.
_OPERATIONS: dict[type[ast.operator], str] = {
    ast.Add: "add_checked",
    ast.Sub: "subtract_checked",
    ast.Mult: "multiply_checked",
    ast.Div: "divide",
}
# Matches behind `\n`, and behind `\r` unless `\n` follows.
_LINE_ENDS = re.compile(r"(?<=\n)|(?<=\r)(?!\n)")
_MOST_CHARACTERS, _MOST_NESTED = 10_000, 100
_FUNCTIONS = ("abs", "contains", "endswith", "isnan", "len", "lower", "startswith", "time", "upper")
_TEXT_TESTS = {"contains": "match_substring", "startswith": "starts_with", "endswith": "ends_with"}


class ExpressionError(ValueError):
    """Raised if an expression can't be parsed, or can't be computed over a table."""


class RowExpression:
    """A condition on rows.

    Args:
        text: expression, such as `score >= 0.5 and language == 'en'`.

    Raises:
        ExpressionError: the expression is invalid.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._root = _parse(text)
        if _measure_depth(self._root) > _MOST_NESTED:
            raise ExpressionError(self._describe(f"must be nested at most {_MOST_NESTED} deep"))
        self._computations: dict[type[ast.expr], Callable[[Any, pa.Table], Values]] = {
            ast.BoolOp: self._join,
            ast.UnaryOp: self._invert,
            ast.BinOp: self._calculate,
            ast.Compare: self._compare,
            ast.Call: self._apply,
        }
        for node in ast.walk(self._root):
            self._check(node)

    def list_columns(self) -> tuple[str, ...]:
        """List the columns that the expression needs; `image.width` needs `image`."""
        called = {id(node.func) for node in ast.walk(self._root) if isinstance(node, ast.Call)}
        names = (
            node.id
            for node in ast.walk(self._root)
            if isinstance(node, ast.Name) and id(node) not in called
        )
        return tuple(dict.fromkeys(names))

    def compute(self, table: pa.Table) -> pa.ChunkedArray | pa.Array:
        """Return whether the condition holds for each row, or null if a null makes it unknown.

        Raises:
            ExpressionError: an operation does not fit the types of its columns.
            MissingColumnError: a column is missing.
        """
        result = self._test(self._root, table)
        if isinstance(result, pa.Scalar):
            return pa.repeat(result, table.num_rows)
        return result

    def _check(self, node: ast.AST) -> None:
        if isinstance(node, ast.Constant) and not _is_constant(node.value):
            msg = (
                f"{ast.unparse(node)}: a value must be a number of at most 64 bits, a string, "
                "True, or False"
            )
            raise ExpressionError(self._describe(msg, node))
        if isinstance(node, ast.Compare):
            for operator, right in zip(node.ops, node.comparators, strict=True):
                self._check_comparison(operator, right)
        elif isinstance(node, ast.BinOp) and type(node.op) not in _OPERATIONS:
            raise ExpressionError(
                self._describe("the operators for numbers are +, -, * and /", node)
            )
        elif isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not | ast.USub):
            raise ExpressionError(self._describe("write `not` or `-`", node))
        elif isinstance(node, ast.Call):
            self._check_call(node)
        elif not isinstance(node, _ALLOWED):
            msg = (
                f"`{ast.unparse(node)}` is not supported; use columns, values, comparisons, and, "
                "or, not, in"
            )
            raise ExpressionError(self._describe(msg, node))

    def _check_comparison(self, operator: ast.cmpop, right: ast.expr) -> None:
        is_none = isinstance(right, ast.Constant) and right.value is None
        if isinstance(operator, ast.Is | ast.IsNot):
            if not is_none:
                raise ExpressionError(self._describe("`is` only supports None; write `==`", right))
        elif is_none:
            raise ExpressionError(self._describe("write `is None` or `is not None`", right))
        elif isinstance(operator, ast.In | ast.NotIn) and not isinstance(right, _LISTS):
            raise ExpressionError(
                self._describe("`in` needs a list such as ('en', 'de'); to search within text, use "
                               "contains(column, 'text')", right)
            )  # fmt: skip

    def _check_call(self, node: ast.Call) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
        if name not in _FUNCTIONS or node.keywords:
            msg = f"unsupported call; the functions are {', '.join(_FUNCTIONS)}"
            raise ExpressionError(self._describe(msg, node))
        constants = node.args[1:] if name in _TEXT_TESTS else node.args if name == "time" else []
        is_text = all(
            isinstance(each, ast.Constant) and isinstance(each.value, str) for each in constants
        )
        takes = {**dict.fromkeys(_TEXT_TESTS, (2, "a column and a text")), "time": (1, "a text")}
        number, what = takes.get(name, (1, "one value"))
        if len(node.args) != number or not is_text:
            raise ExpressionError(self._describe(f"`{name}` takes {what}", node))
        if name == "time":
            self._parse_time(node)

    def _describe(self, problem: str, node: ast.AST | None = None) -> str:
        return _describe(self._text, problem, _locate(self._text, node))

    def _test(self, node: ast.expr, table: pa.Table) -> Values:
        result = self._find(node, table)
        if not pa.types.is_boolean(result.type):
            msg = f"`{ast.unparse(node)}` is {result.type}, not a condition; compare it"
            raise ExpressionError(self._describe(msg, node))
        return result

    def _find(self, node: ast.expr, table: pa.Table) -> Values:
        """Return the value of a node."""
        if isinstance(node, ast.Constant):
            return pa.scalar(node.value)
        for kind, compute in self._computations.items():
            if isinstance(node, kind):
                return compute(node, table)
        return _decode(find_field(table, ast.unparse(node)))

    def _invert(self, node: ast.UnaryOp, table: pa.Table) -> Values:
        if isinstance(node.op, ast.Not):
            return pc.invert(self._test(node.operand, table))
        return self._call("negate_checked", node, self._find(node.operand, table))

    def _join(self, node: ast.BoolOp, table: pa.Table) -> Values:
        # Kleene logic: `False and null` is False instead of null.
        join = pc.and_kleene if isinstance(node.op, ast.And) else pc.or_kleene
        result = self._test(node.values[0], table)
        for value in node.values[1:]:
            result = join(result, self._test(value, table))
        return result

    def _calculate(self, node: ast.BinOp, table: pa.Table) -> Values:
        left, right = self._find(node.left, table), self._find(node.right, table)
        if isinstance(node.op, ast.Div):  # as in Python: 1 / 2 is 0.5
            left, right = (_to_float(each) for each in (left, right))
        return self._call(_OPERATIONS[type(node.op)], node, left, right)

    def _compare(self, node: ast.Compare, table: pa.Table) -> Values:
        left, result = node.left, None
        for operator, right in zip(node.ops, node.comparators, strict=True):
            holds = self._compare_two(node, left, operator, right, table)
            result = holds if result is None else pc.and_kleene(result, holds)
            left = right
        return result

    def _compare_two(
        self, node: ast.expr, left: ast.expr, operator: ast.cmpop, right: ast.expr, table: pa.Table
    ) -> Values:
        value = self._find(left, table)
        if isinstance(operator, ast.Is):
            return pc.is_null(value)
        if isinstance(operator, ast.IsNot):
            return pc.is_valid(value)
        if isinstance(operator, ast.In | ast.NotIn):
            result = self._find_in(node, value, right, table)
            return pc.invert(result) if isinstance(operator, ast.NotIn) else result
        return self._call(_COMPARISONS[type(operator)], node, value, self._find(right, table))

    def _find_in(self, node: ast.expr, value: Values, right: ast.expr, table: pa.Table) -> Values:
        assert isinstance(right, _LISTS)
        result: Values = pa.scalar(False)  # noqa: FBT003 - a value
        for item in right.elts:
            result = pc.or_kleene(result, self._call("equal", node, value, self._find(item, table)))
        return result

    def _apply(self, node: ast.Call, table: pa.Table) -> Values:
        assert isinstance(node.func, ast.Name)
        name = node.func.id
        if name == "time":
            return self._parse_time(node)
        value = self._find(node.args[0], table)
        if name in _TEXT_TESTS:
            assert isinstance(node.args[1], ast.Constant)
            options = {"pattern": node.args[1].value}
            return self._call(_TEXT_TESTS[name], node, value, **options)
        return self._call(_find_function(name, value.type), node, value)

    def _parse_time(self, node: ast.Call) -> pa.Scalar:
        (argument,) = node.args
        assert isinstance(argument, ast.Constant)
        try:
            moment = datetime.fromisoformat(str(argument.value))
        except ValueError as error:
            msg = f"{argument.value!r} is not a time such as '2026-01-31' or '2026-01-31T12:00:00Z'"
            raise ExpressionError(self._describe(msg, argument)) from error
        if moment.tzinfo is None:
            # Without a zone, a time compares with columns that have no zone.
            return pa.scalar(moment, pa.timestamp("us"))
        return pa.scalar(moment.astimezone(UTC), pa.timestamp("us", "UTC"))

    def _call(self, function: str, node: ast.AST, *values: Values, **options: Any) -> Values:  # noqa: ANN401 - options of Arrow's functions
        try:
            call: Callable[..., Values] = getattr(pc, function)
            return call(*values, **options)
        except pa.ArrowException as error:
            kinds = " and ".join(str(value.type) for value in values)
            msg = f"`{ast.unparse(node)}` can't be computed from {kinds} ({_shorten(error)})"
            raise ExpressionError(self._describe(msg, node)) from error


_LISTS = (ast.Tuple, ast.List)
_ALLOWED = (
    *(ast.BoolOp, ast.And, ast.Or, ast.Name, ast.Attribute, ast.Load, ast.Constant, ast.Compare),
    *(ast.Tuple, ast.List, ast.cmpop, ast.operator, ast.unaryop, ast.UnaryOp, ast.BinOp),
)


def _parse(text: str) -> ast.expr:
    if len(text) > _MOST_CHARACTERS:
        msg = f"an expression must have at most {_MOST_CHARACTERS:,} characters"
        raise ExpressionError(msg)
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        hint = "; write `==`, `and`, `or`, `not`, and strings in quotation marks, as in Python"
        problem, position = "the expression can't be parsed", None
        if isinstance(error, SyntaxError):
            problem = error.msg
            if error.offset is not None:
                # Offset 0 means that something is missing at the end of the text.
                column = error.offset - 1 if error.offset else len(text.strip())
                position = _find_position(text, error.lineno or 1, column)
        raise ExpressionError(_describe(text, f"{problem}{hint}", position)) from error


def _describe(text: str, problem: str, position: int | None) -> str:
    where = "" if position is None else f", character {position}"
    return f"{text!r}{where}: {problem}"


def _locate(text: str, node: ast.AST | None) -> int | None:
    """Return the position of a node, in characters from 1, or None if there is no position."""
    line, octets = getattr(node, "lineno", None), getattr(node, "col_offset", None)
    if line is None or octets is None:
        return None
    before = _split_lines(text)[line - 1].encode()[:octets]
    return _find_position(text, line, len(before.decode()))


def _find_position(text: str, line: int, column: int) -> int:
    """Convert a line and column of the stripped text to a position in the whole text, from 1."""
    indent = len(text) - len(text.lstrip())
    return indent + sum(map(len, _split_lines(text)[: line - 1])) + column + 1


def _split_lines(text: str) -> list[str]:
    """Split the stripped text after each of Python's line ends."""
    return _LINE_ENDS.split(text.strip())


def _measure_depth(root: ast.AST) -> int:
    """Return the depth of a tree, without recursion: a deep tree would exceed Python's limit."""
    depth, level = 0, [root]
    while level:
        depth += 1
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return depth


def _is_constant(value: object) -> bool:
    if value is None or isinstance(value, str | bool | float):
        return True
    return isinstance(value, int) and -(1 << 63) <= value < 1 << 63


def _find_function(name: str, kind: pa.DataType) -> str:
    """Return Arrow's name of a function of one value."""
    if name == "len" and not holds_text(kind):
        return "list_value_length" if pa.types.is_nested(kind) else "binary_length"
    return {
        "abs": "abs_checked",
        "isnan": "is_nan",
        "len": "utf8_length",
        "lower": "utf8_lower",
        "upper": "utf8_upper",
    }[name]


def _decode(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    return column.cast(kind.value_type) if pa.types.is_dictionary(kind) else column


def _to_float(values: Values) -> Values:
    return values.cast(pa.float64()) if pa.types.is_integer(values.type) else values


def _shorten(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
