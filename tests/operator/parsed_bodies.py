"""What was parsed of bodies, so that each is parsed once, as the operator's caches have it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from strandline_api.objects.attempt import AttemptSpec, AttemptStatus
from strandline_operator.model.objects import Meta
from strandline_operator.model.view import AttemptObject

T = TypeVar("T")


class ParsedBodies:
    """Results of parsers by what bodies hold; a body may be edited in place between two calls."""

    def __init__(self) -> None:
        self._results: dict[tuple[Callable[..., Any], str], Any] = {}

    def parse(self, body: Any, parse: Callable[[Any], T]) -> T:
        """Return what a parser makes of a body; it is called where that body is a new one."""
        try:
            key = (parse, repr(body))  # by which 1, 1.0 and True differ
        except RecursionError:  # nested deeper than anyone should
            return parse(body)
        if key not in self._results:
            self._results[key] = parse(body)
        result: T = self._results[key]
        return result

    def read_attempt(self, body: dict[str, Any], status: AttemptStatus) -> AttemptObject:
        """Return an attempt as a pass sees it."""
        return AttemptObject(Meta.read(body), self.parse(body["spec"], AttemptSpec.parse), status)
