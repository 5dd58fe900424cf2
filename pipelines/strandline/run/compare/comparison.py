"""Compares two sides: their recipes, their counts, and the rows of their outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from strandline.ledger.checks.counts import StageTotals
from strandline.plan.errors import StrandlineError
from strandline.plan.fingerprint import describe_difference, find_first_change
from strandline.run.compare.output_rows import can_read_rows
from strandline.run.compare.row_changes import RowComparison, compare_rows
from strandline.storage.outputs.manifest import ListedOutput
from strandline_api.outcome.exit_codes import ExitCode


class MissingKeyError(StrandlineError):
    """Raised if no row of a side has the column that identifies rows."""

    exit_code = ExitCode.BAD_SPEC


@dataclass(frozen=True, slots=True)
class ComparedSide:
    """A data set, a publication, or a recipe.

    Attributes:
        name, description: the user's argument, and what it names.
        recipe: parts of the fingerprint, or None if they are unknown.
        sources, stages: number of sources by state, and row counts by stage.
        rows: number of rows, or None for a pipeline file, which has no counts.
        location, list_outputs: folder or URL of the outputs, and its files.
        no_rows: reason why there are no rows to read, or an empty string.
        notes: limits of the numbers, one sentence each.
    """

    name: str
    description: str
    recipe: Mapping[str, Any] | None = None
    sources: Mapping[str, int] = field(default_factory=dict)
    stages: tuple[StageTotals, ...] = ()
    rows: int | None = None
    location: str = ""
    list_outputs: Callable[[], Iterable[ListedOutput]] = tuple
    no_rows: str = ""
    notes: tuple[str, ...] = ()

    def list_paths(self) -> Iterator[str]:
        """Yield the files with rows. Companion files have no rows of their own."""
        for each in self.list_outputs():
            if each.rows:
                yield f"{self.location.rstrip('/')}/{each.name}"


class ComparedCount(NamedTuple):
    """A count of both sides; `stage` is empty for counts of the whole data set."""

    stage: str
    name: str
    a: int
    b: int


class Comparison(NamedTuple):
    """The result of comparing two sides.

    Attributes:
        recipe: differences as `strandline plan` shows them, or None if a recipe is unknown.
        first: first stage of B whose output may differ.
        counts: empty if a side is a pipeline file.
        rows, no_rows: None and the reason if the rows were not compared.
    """

    a: ComparedSide
    b: ComparedSide
    recipe: tuple[str, ...] | None
    first: str | None
    counts: tuple[ComparedCount, ...]
    rows: RowComparison | None = None
    no_rows: str = ""

    @property
    def is_different(self) -> bool:
        """Return True if any compared part differs."""
        are_rows_different = self.rows is not None and self.rows.is_different
        return bool(self.recipe) or any(e.a != e.b for e in self.counts) or are_rows_different


def compare(a: ComparedSide, b: ComparedSide, key: str, samples: int) -> Comparison:
    """Compare two sides.

    Args:
        key: column that identifies a row.
        samples: maximum number of sample rows of each kind.

    Raises:
        MissingKeyError: no row of a side has the key column.
        UnreadableRowsError: a listed file is missing or damaged.
    """
    recipe = first = None
    if a.recipe is not None and b.recipe is not None:
        old, new = _drop_location(a.recipe), _drop_location(b.recipe)
        recipe, first = tuple(describe_difference(old, new)), find_first_change(old, new)
    counts = () if a.rows is None or b.rows is None else tuple(_compare_counts(a, b))
    result = Comparison(a, b, recipe, first, counts)
    why = _explain_rows("A", a) or _explain_rows("B", b)
    if why:
        return result._replace(no_rows=why)
    rows = compare_rows(a.list_paths(), b.list_paths(), key, samples)
    a, b = (_check_rows(side, rows, at) for at, side in enumerate((a, b)))
    return result._replace(a=a, b=b, rows=rows)


def _drop_location(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recipe without the location of the outputs, which changes no row."""
    sink = (recipe.get("order") or [""])[-1]
    return {path: value for path, value in recipe.items() if path != f"{sink}.with.path"}


def _compare_counts(a: ComparedSide, b: ComparedSide) -> Iterator[ComparedCount]:
    for state in (each for each in a.sources if each in b.sources):
        yield ComparedCount("", f"sources {state}", a.sources[state], b.sources[state])
    yield ComparedCount("", "rows", a.rows or 0, b.rows or 0)
    old, new = ({each.name: _list_counts(each) for each in side.stages} for side in (a, b))
    for stage in old | new if old and new else ():
        before, after = old.get(stage, {}), new.get(stage, {})
        for name in before | after:
            yield ComparedCount(stage, name, before.get(name, 0), after.get(name, 0))


def _list_counts(stage: StageTotals) -> dict[str, int]:
    dead = {"dead letters": stage.dead} if stage.dead else {}
    dropped = {f"dropped: {reason}": number for reason, number in stage.reasons}
    return {"rows in": stage.rows_in, "rows out": stage.rows_out} | dead | dropped


def _explain_rows(name: str, side: ComparedSide) -> str:
    other = next((path for path in side.list_paths() if not can_read_rows(path)), None)
    why = side.no_rows or (other and f"files such as {other} can't be compared by row")
    return f"{name}: {why}" if why else ""


def _check_rows(side: ComparedSide, rows: RowComparison, at: int) -> ComparedSide:
    read = rows.read[at]
    if read and rows.null_keys[at] == read:
        names = ", ".join(sorted(rows.columns[at]))
        raise MissingKeyError(
            f"{side.name}: no row has the key column {rows.key!r}; choose one with --key: {names}"
        )
    if read == side.rows:
        return side
    note = f"the files have {read:,} rows, but {side.rows:,} are recorded"
    return replace(side, notes=(*side.notes, note))
