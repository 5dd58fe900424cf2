"""How deep a document is nested, and where it is too deep to be worked with.

Whoever reads it further would give up on it somewhere; here that is a sentence with its place.
"""

from collections.abc import Mapping
from itertools import islice

from strandline_api.documents.problems import Problem, SpecError

MOST_LEVELS = 64
_SHOWN = 6  # names of a place


def check_depth(spec: object) -> None:
    """Check that nothing of a spec is nested deeper than `MOST_LEVELS` levels.

    Raises:
        SpecError: something is; it names where that begins.
    """
    # By a list of our own, since calls are what gives up.
    waiting: list[tuple[object, tuple[object, ...]]] = [(spec, ())]
    levels: dict[int, int] = {}
    while waiting:
        value, place = waiting.pop()
        # What aliases of YAML name again and again is looked at once, or where it lies deeper.
        if not isinstance(value, Mapping | list | tuple) or levels.get(id(value), -1) >= len(place):
            continue
        levels[id(value)] = len(place)
        if len(place) >= MOST_LEVELS:
            raise SpecError((_describe(place),))
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        waiting.extend((each, (*place, name)) for name, each in items)


def _describe(place: tuple[object, ...]) -> Problem:
    path = "spec"
    for name in islice(place, _SHOWN):
        path += f"[{name}]" if isinstance(name, int) else f".{name}"
    return Problem(path, f"it is nested more than {MOST_LEVELS} levels deep", "make it flatter")
