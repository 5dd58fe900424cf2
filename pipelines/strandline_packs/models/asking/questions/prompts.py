"""Prompts: templates over the columns of a row, and the digest that identifies a request.

Templates use Jinja2's sandbox, which is loaded with the first template. The module must not depend
on servers.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from importlib import import_module
from typing import Any

from strandline_packs.models.asking.answers import Endpoint, PromptError

DIGEST_BYTES = 16
_COLUMN = "__column_"  # prefix for columns named like a global of Jinja2
_SELF = "self"  # Jinja2's name for the blocks of a template


class Template:
    """A template over the columns of a row.

    Args:
        text: Jinja2 source; `{{ text }}` is the column `text`, and a null is empty.

    Raises:
        ValueError: the template is invalid; the message has the line.
        ImportError: Jinja2 is not installed.
    """

    def __init__(self, text: str) -> None:
        errors = import_module("jinja2.exceptions")
        environment = _open_sandbox()
        self._errors = errors.TemplateError
        try:
            parsed = environment.parse(text)
            renamed = _free_columns(parsed)
            self._given = {name: renamed.get(name, name) for name in _find_names(parsed)}
            self.columns: tuple[str, ...] = tuple(sorted(self._given.values()))
            self._template = environment.from_string(parsed)
        except errors.TemplateSyntaxError as error:
            msg = f"not a readable template: {error.message} (line {error.lineno})"
            raise ValueError(msg) from None

    def render(self, row: Mapping[str, Any]) -> str:
        """Return the text for a row.

        Raises:
            PromptError: a field is missing, or the sandbox forbids an operation.
        """
        try:
            given = {name: row[column] for name, column in self._given.items()}
            return str(self._template.render(given))
        # Expressions such as `{{ 1 / n }}` run in Python and raise errors of Python.
        except (self._errors, ArithmeticError, TypeError, ValueError, OverflowError) as error:
            msg = f"no prompt can be made from it: {type(error).__name__}: {error}"
            raise PromptError(msg) from None


def digest_request(endpoint: Endpoint, body: Mapping[str, Any], rules: object = None) -> bytes:
    """Return the digest of a request: 16 bytes over everything that affects the answer.

    Args:
        rules: further requirements for an answer that are not part of the request.
    """
    # Sort the keys: the order of parameters in the pipeline must not change the digest.
    packed = json.dumps([endpoint.value, body, rules], sort_keys=True, ensure_ascii=False)
    return blake2b(packed.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()


def list_rows(columns: Mapping[str, Any], rows: int) -> Iterator[dict[str, Any] | PromptError]:
    """Yield the rows of Arrow columns, or an error for a row with invalid Unicode."""
    lists = {name: _list_values(column, name) for name, column in columns.items()}
    for at in range(rows):
        row = {name: values[at] for name, values in lists.items()}
        errors = (value for value in row.values() if isinstance(value, PromptError))
        yield next(errors, row)


def _list_values(column: Any, name: str) -> list[Any]:  # noqa: ANN401 - a column of Arrow
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        # Slow path: replaces the rows with invalid bytes by errors, and keeps the other rows.
        return [_read_value(value, name) for value in column]


def _read_value(value: Any, name: str) -> object:  # noqa: ANN401 - a scalar of Arrow
    try:
        return value.as_py()
    except UnicodeDecodeError:
        return PromptError(f"column {name!r} has invalid Unicode; repair or drop it before")


def _free_columns(parsed: Any) -> dict[str, str]:  # noqa: ANN401 - Jinja2 is loaded here
    """Rename the columns in a template that share a name with one of Jinja2's globals.

    `{{ range(3) }}` calls the global, and `{{ range }}` is a column. A name that the template sets
    itself stays as it is.

    Returns:
        The columns by their new names.
    """
    nodes = import_module("jinja2.nodes")
    # In a template without blocks, `self` is free for a column.
    reserved = {*_list_globals(), *(() if parsed.find(nodes.Block) else (_SELF,))}
    names = [name for name in parsed.find_all(nodes.Name) if name.name in reserved]
    reserved -= {name.name for name in names if name.ctx != "load"}
    called = {id(call.node) for call in parsed.find_all(nodes.Call)}
    given = {}
    for name in names:
        if name.name in reserved and id(name) not in called:
            column, name.name = name.name, f"{_COLUMN}{name.name}"
            given[name.name] = column
    return given


def _find_names(parsed: Any) -> set[str]:  # noqa: ANN401 - Jinja2 is loaded here
    return set(import_module("jinja2.meta").find_undeclared_variables(parsed)) - _list_globals()


def _list_globals() -> frozenset[str]:
    return frozenset(_open_sandbox().globals)


@functools.cache
def _open_sandbox() -> Any:  # noqa: ANN401 - Jinja2 is loaded here
    sandbox, jinja2 = import_module("jinja2.sandbox"), import_module("jinja2")
    return sandbox.ImmutableSandboxedEnvironment(
        # A missing field must fail the row instead of leaving a gap in the prompt.
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: "" if value is None else value,
        keep_trailing_newline=True,
        autoescape=False,  # prompts are not HTML
    )
