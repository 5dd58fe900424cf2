"""A cache of parsed bodies: each body is parsed once, as in the operator's caches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from strandline_api.objects.attempt import AttemptSpec, AttemptStatus
from strandline_operator.model.objects import Meta
from strandline_operator.model.view import AttemptObject

T = TypeVar("T")


class ParsedBodies:
    """Results of parsers by body content, because a test may edit a body in place."""

    def __init__(self) -> None:
        self._results: dict[tuple[Callable[..., Any], str], Any] = {}

    def parse(self, body: Any, parse: Callable[[Any], T]) -> T:
        """Return the parsed body. The parser runs only for a new body."""
        try:
            key = (parse, repr(body))  # `repr` distinguishes 1, 1.0, and True
        except RecursionError:  # nested too deeply for `repr`
            return parse(body)
        if key not in self._results:
            self._results[key] = parse(body)
        result: T = self._results[key]
        return result

    def read_attempt(self, body: dict[str, Any], status: AttemptStatus) -> AttemptObject:
        """Return an attempt as a pass reads it."""
        return AttemptObject(Meta.read(body), self.parse(body["spec"], AttemptSpec.parse), status)
