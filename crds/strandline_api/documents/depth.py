"""How deep a document is nested, and where it is too deep to be worked with.

A later reader would give up on it somewhere; here that is a sentence with its place.
"""

from collections.abc import Mapping
from itertools import islice

from strandline_api.documents.problems import Problem, SpecError

MOST_LEVELS = 64
_SHOWN = 6  # names of a path


def check_depth(spec: object) -> None:
    """Check that nothing of a spec is nested deeper than `MOST_LEVELS` levels.

    Raises:
        SpecError: something is; it names where that begins.
    """
    # By a list of our own, since calls are what gives up.
    waiting: list[tuple[object, tuple[object, ...], frozenset[int]]] = [(spec, (), frozenset())]
    levels: dict[int, int] = {}
    while waiting:
        value, path, above = waiting.pop()
        # Values that aliases of YAML name again and again are looked at once, or where they lie
        # deeper; a value that contains itself is no matter of depth.
        is_known = levels.get(id(value), -1) >= len(path) or id(value) in above
        if is_known or not isinstance(value, Mapping | list | tuple):
            continue
        levels[id(value)] = len(path)
        if len(path) >= MOST_LEVELS:
            raise SpecError((_describe(path),))
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        within = above | {id(value)}
        waiting.extend((each, (*path, name), within) for name, each in items)


def _describe(path: tuple[object, ...]) -> Problem:
    shown = "spec"
    for name in islice(path, _SHOWN):
        shown += f"[{name}]" if isinstance(name, int) else f".{name}"
    return Problem(shown, f"it is nested more than {MOST_LEVELS} levels deep", "make it flatter")
