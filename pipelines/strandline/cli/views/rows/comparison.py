"""Formats a comparison as text, or as plain data.

This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from strandline.cli.views.format import align, escape_text, format_amount, format_count
from strandline.run.compare.comparison import ComparedSide, Comparison
from strandline.run.compare.row_changes import KINDS, RowComparison

_COLUMNS = 3  # maximum number of displayed columns of an added or removed row


def describe_comparison(found: Comparison) -> Iterator[str]:
    """Yield the lines of a comparison."""
    sides = (("A", found.a), ("B", found.b))
    heads = [(at, escape_text(side.name), escape_text(side.description)) for at, side in sides]
    yield from align(heads, 3)
    yield from (f"note on {at}: {escape_text(note)}" for at, side in sides for note in side.notes)
    yield ""
    yield describe_recipe(found)
    yield from (f"  {line}" for line in found.recipe or ())
    if found.counts:
        yield ""
        yield from align([("counts", "A", "B", "difference"), *_list_counts(found)])
    yield ""
    yield describe_rows(found)
    if found.rows is None:
        return
    yield from (f"  {line}" for line in list_remarks(found))
    for kind in KINDS:
        for row in found.rows.samples[kind]:
            yield f"  {kind}: {escape_text(row.key)}"
            most = len(row.columns) if kind == "changed" else _COLUMNS
            for column, a, b in row.columns[:most]:
                values = f"{a} -> {b}" if kind == "changed" else f"{b if a is None else a}"
                yield f"    {escape_text(f'{column}: {values}')}"
            if len(row.columns) > most:
                yield f"    and {format_amount(len(row.columns) - most, 'more column')}"


def describe_recipe(found: Comparison) -> str:
    """Describe the difference of the recipes in a clause."""
    if not found.recipe:
        return "recipe: not compared: a side has none" if found.recipe is None else "recipe: equal"
    begin = f", from stage {found.first!r} on" if found.first else ""
    return f"recipe: {format_amount(len(found.recipe), 'difference')}{begin}"


def describe_rows(found: Comparison) -> str:
    """Describe the numbers of rows by kind in a clause, or why they were not compared."""
    if found.rows is None:
        return f"rows: not compared: {escape_text(found.no_rows)}"
    kinds = (f"{format_count(number)} {kind}" for kind, number in found.rows.counts.items())
    return f"rows, matched by {found.rows.key!r}: {', '.join(kinds)}"


def list_remarks(found: Comparison) -> Iterator[str]:
    """Yield sentences about rows that have no unique key, and about columns of one side only."""
    rows = found.rows or RowComparison("")
    for at, side, other in (("A", 0, 1), ("B", 1, 0)):
        if rows.null_keys[side]:
            yield f"{at} has {format_amount(rows.null_keys[side], 'row')} without {rows.key!r}"
        if rows.repeated_keys[side]:
            yield f"{at} has {format_amount(rows.repeated_keys[side], 'repeated key')}"
        only = sorted(rows.columns[side] - rows.columns[other]) if all(rows.read) else ()
        if only:
            yield f"only {at} has values in the columns: {escape_text(', '.join(only))}"
    if any((*rows.null_keys, *rows.repeated_keys)):
        yield "rows without a unique key match equal rows only: they are never `changed`"


def _list_counts(found: Comparison) -> Iterator[tuple[str, str, str, str]]:
    last = ""
    for stage, name, a, b in found.counts:
        if stage != last:
            yield stage, "", "", ""
            last = stage
        label = f"  {name}" if stage else name
        yield label, format_count(a), format_count(b), f"{b - a:+,}" if a != b else ""


def render_comparison(found: Comparison) -> dict[str, Any]:
    """Render a comparison for `diff --json`; its keys are stable."""
    return {
        "isDifferent": found.is_different,
        "a": _render_side(found.a),
        "b": _render_side(found.b),
        "recipe": None if found.recipe is None else list(found.recipe),
        "firstStage": found.first,
        "counts": [each._asdict() | {"stage": each.stage or None} for each in found.counts],
        "rows": found.rows and _render_rows(found.rows),
        "rowsNotCompared": found.no_rows or None,
    }


def _render_side(side: ComparedSide) -> dict[str, Any]:
    return {"name": side.name, "description": side.description, "notes": list(side.notes)}


def _render_rows(rows: RowComparison) -> dict[str, Any]:
    return {
        "key": rows.key,
        **rows.counts,
        "read": rows.read,
        "nullKeys": rows.null_keys,
        "repeatedKeys": rows.repeated_keys,
        "columns": [sorted(names) for names in rows.columns],
        "samples": {
            kind: [
                {"key": row.key, "columns": [each._asdict() for each in row.columns]}
                for row in samples
            ]
            for kind, samples in rows.samples.items()
        },
    }
