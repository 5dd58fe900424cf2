"""Small faults for a module, and the module with one of them planted.

Pure: source in, syntax trees out. This module must not depend on how faults are detected.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import NamedTuple

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
SWAPPED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr,  # not the reverse: `|` may be a union of types, where `&` fails at once
}


class Mutant(NamedTuple):
    """A fault: a node of the module, a way to change it, and its source text.

    Attributes:
        number: of the node, in the order of `ast.walk`.
        way: of the changes possible for the node.
    """

    module: str
    number: int
    way: int
    line: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.module}: `{self.before}` → `{self.after}`"


def list_mutants(module: str, source: str) -> list[Mutant]:
    """Yield every possible fault in source order."""
    tree = ast.parse(source)
    found = [
        Mutant(module, number, way, node.lineno, _spell(node), _spell(changed))
        for number, node in enumerate(ast.walk(tree))
        if isinstance(node, (ast.expr, ast.stmt))
        for way, changed in enumerate(_change(node))
    ]
    return sorted(found, key=lambda mutant: (mutant.line, mutant.number, mutant.way))


def plant(source: str, mutant: Mutant) -> ast.Module:
    """Return the module with the fault."""
    tree = ast.parse(source)
    target = next(node for at, node in enumerate(ast.walk(tree)) if at == mutant.number)
    changed = list(_change(target))[mutant.way]
    _Replacing(target, changed).visit(tree)
    return ast.fix_missing_locations(tree)


class _Replacing(ast.NodeTransformer):
    def __init__(self, target: ast.AST, changed: ast.AST) -> None:
        self._target = target
        self._changed = changed

    def visit(self, node: ast.AST) -> ast.AST:
        return self._changed if node is self._target else self.generic_visit(node)


def _change(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the node with each possible fault; the node itself is not changed."""
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        yield from _drop_conditions(node)
    elif isinstance(node, ast.expr):
        yield from _change_expression(node)
    elif isinstance(node, ast.stmt):
        yield from _change_statement(node)


def _change_expression(node: ast.expr) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=operators):
            for at, operator in enumerate(operators):
                turned = COMPARISONS[type(operator)]()
                yield _with(node, ops=[*operators[:at], turned, *operators[at + 1 :]])
        case ast.IfExp(test=test) if not _flips(test):
            yield _with(node, test=ast.UnaryOp(ast.Not(), test))
        case ast.BoolOp(op=operator):
            yield _with(node, op=ast.Or() if isinstance(operator, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.BinOp(op=operator) if (other := SWAPPED.get(type(operator))) is not None:
            yield _with(node, op=other())


def _change_statement(node: ast.stmt) -> Iterator[ast.AST]:
    match node:
        case ast.If(test=test) | ast.While(test=test) if not _flips(test):
            yield _with(node, test=ast.UnaryOp(ast.Not(), test))
        case ast.AugAssign(op=operator) if (other := SWAPPED.get(type(operator))) is not None:
            yield _with(node, op=other())
        case ast.Expr(value=ast.Call(func=ast.Name(id="assert_never"))):
            return  # a type checker proves that this line is unreachable
        case ast.Expr(value=ast.Call() | ast.Yield() | ast.YieldFrom()):
            yield ast.copy_location(ast.Pass(), node)
        case ast.Return(value=ast.Constant(value=bool(value))):
            yield _with(node, value=ast.Constant(value=not value))
        case ast.Continue():
            yield ast.copy_location(ast.Break(), node)


def _drop_conditions(
    node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp,
) -> Iterator[ast.AST]:
    """Yield the comprehension without one of its filters."""
    for at, generator in enumerate(node.generators):
        for condition in generator.ifs:
            left = [expr for expr in generator.ifs if expr is not condition]
            bare = _with(generator, ifs=left)
            yield _with(node, generators=[*node.generators[:at], bare, *node.generators[at + 1 :]])


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _flips(test: ast.expr) -> bool:
    """Return whether inverting the branch equals another fault of the condition."""
    match test:
        case ast.UnaryOp(op=ast.Not()):
            return True
        case ast.Compare(ops=[ast.Eq() | ast.NotEq() | ast.Is() | ast.IsNot()]):
            return True
        case ast.Compare(ops=[ast.In() | ast.NotIn()]):
            return True
    return False


def _spell(node: ast.AST) -> str:
    """Return the first line of the node's source."""
    if isinstance(node, (ast.If, ast.While)):
        word = "if" if isinstance(node, ast.If) else "while"
        return f"{word} {ast.unparse(node.test)}:"
    return " ".join(ast.unparse(node).split())
