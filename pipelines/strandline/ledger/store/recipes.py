"""By which recipe each finished source was made: the parts of the fingerprint, by first attempt.

An attempt has one recipe, and a finished source names its attempt, so nothing more is kept of a
source. What is done with those of an older recipe is not known here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from strandline.ledger.store.store import Store
from strandline.plan.fingerprint import find_first_change

RECIPES = "recipes"  # the name in `meta`


class Recipe(NamedTuple):
    """The parts of a fingerprint, and the first attempt that worked by them.

    Attributes:
        growing: see `Fingerprint`.
    """

    since: int
    parts: Mapping[str, Any]
    growing: Sequence[str] = ()


def read_recipes(store: Store) -> list[Recipe]:
    """Return the recipes of a ledger, the oldest first.

    One of an older release has one: that of its last attempt.
    """
    known = store.read_meta(RECIPES)
    if known is not None:
        return [Recipe(**each) for each in known]
    fingerprint = store.read_meta("fingerprint")
    return [] if fingerprint is None else [Recipe(0, fingerprint["parts"])]


def join_recipe(recipes: Sequence[Recipe], recipe: Recipe) -> list[Recipe]:
    """Return recipes with that of a later attempt."""
    last = recipes[-1] if recipes else None
    if last is None or find_first_change(last.parts, recipe.parts, recipe.growing) is not None:
        return [*recipes, recipe]
    return [*recipes[:-1], recipe._replace(since=last.since)]  # a list may have grown


class Changes:
    """Where the last recipe of a ledger differs from that of each attempt.

    Args:
        recipes: the oldest first, at least one.
    """

    def __init__(self, recipes: Sequence[Recipe]) -> None:
        self._since = [each.since for each in recipes]
        _, last, growing = recipes[-1]
        self.order: Sequence[str] = last.get("order", ())
        self._first = [find_first_change(each.parts, last, growing) for each in recipes]
        self._has_more = [_has_more_stages(each.parts, last) for each in recipes]

    @property
    def is_any(self) -> bool:
        """Return whether an attempt may have left what the last recipe would not."""
        return any(first is not None for first in self._first)

    def find_first(self, attempt: int) -> str | None:
        """Return the first stage that works otherwise than in an attempt; None: none does."""
        return self._first[self._find(attempt)]

    def has_more(self, attempt: int) -> bool:
        """Return whether all that differs are stages that came since, right above the sink."""
        return self._has_more[self._find(attempt)]

    def _find(self, attempt: int) -> int:
        return max(0, bisect_right(self._since, attempt) - 1)

    def list_unchanged(self, attempt: int) -> Sequence[str]:
        """Return the stages above the first one that differs; empty where none does."""
        first = self.find_first(attempt)
        return () if first is None else self.order[: self.order.index(first)]


def read_changes(store: Store) -> Changes | None:
    """Return where the recipes of a ledger differ from its last one; None: nowhere."""
    recipes = read_recipes(store)
    changes = Changes(recipes) if recipes else None
    return changes if changes is not None and changes.is_any else None


def count_older(store: Store) -> int:
    """Return how many finished sources an older recipe than the last one has made."""
    changes = read_changes(store)
    if changes is None:
        return 0
    entries = (entry for _, entry, _ in store.list_records())
    return sum(changes.find_first(entry.attempt) is not None for entry in entries)


def _has_more_stages(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    before, after = old.get("order", ()), new.get("order", ())
    if not before or list(after) != [*before[:-1], *after[len(before) - 1 : -1], before[-1]]:
        return False
    own = tuple(f"{name}." for name in before)
    paths = (path for path in old.keys() | new.keys() if path.startswith((*own, "code.")))
    return all(old.get(path) == new.get(path) for path in paths)
