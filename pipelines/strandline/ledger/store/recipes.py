"""Recipes: the fingerprint parts under which sources were finished.

An attempt has one recipe, and a finished source names its attempt, so the source needs no other
record of its recipe. Callers decide what to do with sources of older recipes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from strandline.ledger.store.fingerprints import read_fingerprint
from strandline.ledger.store.store import Store
from strandline.plan.fingerprint import find_differing, find_first_change

RECIPES = "recipes"  # key in `meta`


class Recipe(NamedTuple):
    """The parts of a fingerprint, and the first attempt that used them.

    Attributes:
        growing: see `Fingerprint`.
        dropping: stages that may have dropped rows with errors without recording them.
        mixed: stages whose dead letters a later recipe may have added to sources of this recipe.
    """

    since: int
    parts: Mapping[str, Any]
    growing: Sequence[str] = ()
    dropping: Sequence[str] = ()
    mixed: Sequence[str] = ()

    def pack(self) -> dict[str, Any]:
        """Return the recipe for `meta`. Older releases can read a recipe that is not mixed."""
        packed = self._asdict()
        if not self.mixed:
            del packed["mixed"]
        return packed


class Tail(NamedTuple):
    """The last stages before the sink, if an old recipe differs from the last recipe only in them.

    Attributes:
        begin: number of stages before the tail, including the source stage.
        renewed: previous parameters of the tail's first stage, by path; None if the whole tail is
            new.
        has_dropped: True if the tail's first stage may have dropped rows with errors.
    """

    begin: int
    renewed: Mapping[str, Any] | None = None
    has_dropped: bool = False


def read_recipes(store: Store) -> list[Recipe]:
    """Return the recipes of a ledger, oldest first.

    A ledger of an older release has only the recipe of its last attempt.
    """
    known = store.read_meta(RECIPES)
    if known is not None:
        return [Recipe(**each) for each in known]
    fingerprint = read_fingerprint(store)
    return [] if fingerprint is None else [Recipe(0, fingerprint.parts)]


def join_recipe(recipes: Sequence[Recipe], recipe: Recipe) -> list[Recipe]:
    """Return the recipes including the recipe of a later attempt."""
    last = recipes[-1] if recipes else None
    if last is None or find_first_change(last.parts, recipe.parts, recipe.growing) is not None:
        return [*recipes, recipe]
    # The recipes are equal except for growing lists and the handling of rows with errors.
    dropping = sorted({*last.dropping, *recipe.dropping})
    return [*recipes[:-1], recipe._replace(since=last.since, dropping=dropping)]


def mix_recipes(recipes: Sequence[Recipe], stage: str) -> list[Recipe]:
    """Return the recipes, marked as mixed because dead letters of `stage` will be added."""
    return [each._replace(mixed=sorted({*each.mixed, stage})) for each in recipes]


def drop_unused(recipes: Sequence[Recipe], attempts: Collection[int]) -> list[Recipe]:
    """Return the recipes of some attempts, and the last recipe.

    The attempts must include every attempt that an entry of the ledger names.
    """
    ends = [each.since for each in recipes[1:]]
    used = [
        each
        for each, end in zip(recipes, ends, strict=False)
        if any(each.since <= attempt < end for attempt in attempts)
    ]
    return [*used, *recipes[-1:]]


class Changes:
    """Differences between the last recipe of a ledger and the recipe of each attempt.

    Args:
        recipes: at least one recipe, oldest first.
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
        # Sources of a mixed recipe have rows of another recipe, even if the pipeline has been
        # changed back since.
        mixed = [stage if stage in self.order else self.order[0] for stage in recipe.mixed]
        return min([*mixed, *([first] if first else [])], key=self.order.index, default=None)

    @property
    def is_any(self) -> bool:
        """Return True if any attempt used a recipe other than the last recipe."""
        return any(first is not None for first in self._first)

    def find_first(self, attempt: int) -> str | None:
        """Return the first stage that has changed since an attempt, if any."""
        return self._first[self._find(attempt)]

    def may_help(self, attempt: int, stage: str) -> bool:
        """Return True if a source that failed in an attempt may pass with the last recipe.

        Args:
            stage: the stage in which the source failed, or empty if a process died.
        """
        first = self.find_first(attempt)
        if first is None or stage not in self.order:
            return first is not None
        return self.order.index(first) <= self.order.index(stage)

    def find_tail(self, attempt: int) -> Tail | None:
        """Return the changed stages before the sink, or None if anything else has changed."""
        return self._tails[self._find(attempt)]

    def _find(self, attempt: int) -> int:
        return max(0, bisect_right(self._since, attempt) - 1)

    def list_unchanged(self, attempt: int) -> Sequence[str]:
        """Return the stages before the first changed stage; empty if no stage has changed."""
        first = self.find_first(attempt)
        return () if first is None else self.order[: self.order.index(first)]


def read_changes(store: Store) -> Changes | None:
    """Return the differences between the recipes of a ledger, or None if there are none."""
    recipes = read_recipes(store)
    changes = Changes(recipes) if recipes else None
    return changes if changes is not None and changes.is_any else None


def count_older(store: Store) -> int:
    """Return the number of finished sources whose recipe differs from the last recipe."""
    changes = read_changes(store)
    if changes is None:
        return 0
    entries = (entry for _, entry, _ in store.list_records())
    return sum(changes.find_first(entry.attempt) is not None for entry in entries)


def _find_tail(recipe: Recipe, new: Mapping[str, Any]) -> Tail | None:
    if recipe.mixed:
        return None  # the sink's files have rows of several recipes
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
    # Only parameters and inputs may have changed: with another class, version, or group, the stage
    # may have had other columns.
    if name == before[0] or not all(
        path.startswith((given, f"{name}.inputs.")) for path in differing
    ):
        return None
    renewed = {path.removeprefix(given): old[path] for path in old if path.startswith(given)}
    return Tail(last - 1, renewed, name in recipe.dropping)
