"""By which recipe each finished source was made: the parts of the fingerprint, by first attempt.

An attempt has one recipe, and a finished source names its attempt, so nothing more is kept of a
source. What is done with those of an older recipe is not known here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from strandline.ledger.store.fingerprints import read_fingerprint
from strandline.ledger.store.store import Store
from strandline.plan.fingerprint import find_differing, find_first_change

RECIPES = "recipes"  # the name in `meta`


class Recipe(NamedTuple):
    """The parts of a fingerprint, and the first attempt that worked by them.

    Attributes:
        growing: see `Fingerprint`.
        dropping: stages that may have left out rows which raised errors, and told no record of it.
        mixed: stages with dead letters that a later recipe may have joined to its sources.
    """

    since: int
    parts: Mapping[str, Any]
    growing: Sequence[str] = ()
    dropping: Sequence[str] = ()
    mixed: Sequence[str] = ()

    def pack(self) -> dict[str, Any]:
        """Return the recipe as `meta` keeps it; an older release can read one that is not mixed."""
        packed = self._asdict()
        if not self.mixed:
            del packed["mixed"]
        return packed


class Tail(NamedTuple):
    """The stages above the sink, where a recipe differs from the last one in them alone.

    Attributes:
        begin: how many stages are above them, the source among them.
        renewed: the parameters that the first of them had, by path; None: all of them came since.
        has_dropped: it may have left out rows that raised errors.
    """

    begin: int
    renewed: Mapping[str, Any] | None = None
    has_dropped: bool = False


def read_recipes(store: Store) -> list[Recipe]:
    """Return the recipes of a ledger, the oldest first.

    One of an older release has one: that of its last attempt.
    """
    known = store.read_meta(RECIPES)
    if known is not None:
        return [Recipe(**each) for each in known]
    fingerprint = read_fingerprint(store)
    return [] if fingerprint is None else [Recipe(0, fingerprint.parts)]


def join_recipe(recipes: Sequence[Recipe], recipe: Recipe) -> list[Recipe]:
    """Return recipes with that of a later attempt."""
    last = recipes[-1] if recipes else None
    if last is None or find_first_change(last.parts, recipe.parts, recipe.growing) is not None:
        return [*recipes, recipe]
    # A list may have grown, and what is done with rows that raise errors is no part of a recipe.
    dropping = sorted({*last.dropping, *recipe.dropping})
    return [*recipes[:-1], recipe._replace(since=last.since, dropping=dropping)]


def mix_recipes(recipes: Sequence[Recipe], stage: str) -> list[Recipe]:
    """Return recipes to whose sources another one is to join dead letters of a stage."""
    return [each._replace(mixed=sorted({*each.mixed, stage})) for each in recipes]


def drop_unused(recipes: Sequence[Recipe], attempts: Collection[int]) -> list[Recipe]:
    """Return the recipes of these attempts, and the last one.

    Attempts of a recipe that is dropped must have nothing left in the ledger.
    """
    ends = [each.since for each in recipes[1:]]
    used = [
        each
        for each, end in zip(recipes, ends, strict=False)
        if any(each.since <= attempt < end for attempt in attempts)
    ]
    return [*used, *recipes[-1:]]


class Changes:
    """Where the last recipe of a ledger differs from that of each attempt.

    Args:
        recipes: the oldest first, at least one.
    """

    def __init__(self, recipes: Sequence[Recipe]) -> None:
        self._since = [each.since for each in recipes]
        last, growing = recipes[-1].parts, recipes[-1].growing
        self.order: Sequence[str] = last.get("order", ())
        self._first = [self._find_first(each, last, growing) for each in recipes]
        self._tails = [_find_tail(each, last) for each in recipes]

    def _find_first(
        self, recipe: Recipe, last: Mapping[str, Any], growing: Sequence[str]
    ) -> str | None:
        first = find_first_change(recipe.parts, last, growing)
        # Rows of another recipe are among those of a mixed one, even where the pipeline is again
        # as it was.
        mixed = [stage if stage in self.order else self.order[0] for stage in recipe.mixed]
        return min([*mixed, *([first] if first else [])], key=self.order.index, default=None)

    @property
    def is_any(self) -> bool:
        """Return whether an attempt may have left what the last recipe would not."""
        return any(first is not None for first in self._first)

    def find_first(self, attempt: int) -> str | None:
        """Return the first stage that works otherwise than in an attempt; None: none does."""
        return self._first[self._find(attempt)]

    def may_help(self, attempt: int, stage: str) -> bool:
        """Return whether a source that failed in a stage in an attempt may pass that now.

        Args:
            stage: empty where a process died over the source.
        """
        first = self.find_first(attempt)
        if first is None or stage not in self.order:
            return first is not None
        return self.order.index(first) <= self.order.index(stage)

    def find_tail(self, attempt: int) -> Tail | None:
        """Return the stages above the sink that differ, where nothing else does."""
        return self._tails[self._find(attempt)]

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


def _find_tail(recipe: Recipe, new: Mapping[str, Any]) -> Tail | None:
    if recipe.mixed:
        return None  # rows of both recipes lie in the sink's files
    old, last = recipe.parts, max(0, len(recipe.parts.get("order", ())) - 1)
    before, after = list(old.get("order", ())), list(new.get("order", ()))
    if not before or after != [*before[:-1], *after[last:-1], before[-1]]:
        return None
    own = tuple(f"{name}." for name in before)
    paths = find_differing(old, new)
    differing = [path for path in paths if path.startswith((*own, "code."))]
    if not differing:
        return Tail(last)
    name = before[last - 1]
    given = f"{name}.with."
    # A class, version or group of before may have had other columns.
    if name == before[0] or not all(
        path.startswith((given, f"{name}.inputs.")) for path in differing
    ):
        return None
    renewed = {path.removeprefix(given): old[path] for path in old if path.startswith(given)}
    return Tail(last - 1, renewed, name in recipe.dropping)
