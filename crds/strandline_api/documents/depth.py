"""Checks how deeply a document is nested.

Without this check, later code would hit the recursion limit without an error that names the path.
"""

from collections.abc import Mapping
from itertools import islice

from strandline_api.documents.problems import Problem, SpecError

MOST_LEVELS = 64
_SHOWN = 6  # path segments shown in a message


def check_depth(spec: object) -> None:
    """Check that a spec is nested at most `MOST_LEVELS` levels deep.

    Raises:
        SpecError: if the spec is nested deeper. The error contains the first segments of the path.
    """
    # Use an explicit stack, because recursion would fail on deep documents.
    waiting: list[tuple[object, tuple[object, ...], frozenset[int]]] = [(spec, (), frozenset())]
    levels: dict[int, int] = {}
    while waiting:
        value, path, above = waiting.pop()
        # YAML aliases can repeat a value. Visit such a value again only at a deeper level. A value
        # that contains itself is not this check's concern.
        is_known = levels.get(id(value), -1) >= len(path) or id(value) in above
        if is_known or not isinstance(value, Mapping | list | tuple):
            continue
        levels[id(value)] = len(path)
        if len(path) >= MOST_LEVELS:
            raise SpecError((_describe(path),))
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        within = above | {id(value)}
        # Keep the path of each value for the error message.
        waiting.extend((each, (*path, name), within) for name, each in items)


def _describe(path: tuple[object, ...]) -> Problem:
    shown = "spec"
    for name in islice(path, _SHOWN):
        shown += f"[{name}]" if isinstance(name, int) else f".{name}"
    return Problem(shown, f"must be nested at most {MOST_LEVELS} levels deep", "make it flatter")
