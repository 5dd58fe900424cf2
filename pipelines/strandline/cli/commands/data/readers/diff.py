"""`strandline diff`: compares two data sets or recipes."""

from __future__ import annotations

import json
from pathlib import Path

import click

from strandline.cli.app.json_output import write_line
from strandline.cli.app.options import show_examples, take_json, take_volume
from strandline.cli.app.program import add_debug
from strandline.cli.report.page import render_comparison_page
from strandline.cli.views.rows.comparison import describe_comparison, render_comparison
from strandline.run.compare.comparison import compare
from strandline.run.compare.sides import find_side


@click.command(
    "diff",
    epilog=show_examples(
        "strandline diff /data/notes strandline-data/notes --html diff.html",
        "strandline diff strandline-data/notes@1 strandline-data/notes",
        "strandline diff pipeline.yaml strandline-data/notes",
    ),
)
@click.argument("a")
@click.argument("b")
@add_debug
@take_volume
@click.option(
    "--key",
    default="key",
    show_default=True,
    metavar="COLUMN",
    help="Column that names a row.",
)
@click.option(
    "--samples",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    metavar="N",
    help="Number of sample rows to show for each kind of difference.",
)
@click.option(
    "--html",
    "page",
    type=click.Path(path_type=Path),
    metavar="PAGE",
    help="Also write the result as an HTML page.",
)
@take_json
def diff(
    a: str, b: str, volume: Path, key: str, samples: int, page: Path | None, as_json: bool
) -> int:
    """Compare two data sets or recipes, A and B.

    Each is a pipeline FILE, a folder of outputs or of a push, a folder of a publication, or
    VOLUME/NAME of a pipeline. VOLUME/NAME@ATTEMPT and VOLUME/NAME@ATTEMPT/PUBLICATION name an
    earlier publication, which has a recipe and counts, but no rows. The exit code is 0 if both are
    equal, and 1 if they differ.
    """
    found = compare(find_side(a, volume), find_side(b, volume), key, samples)
    if page is not None:
        try:
            page.write_bytes(render_comparison_page(found).encode("utf-8", "replace"))
        except OSError as error:
            msg = f"{page}: can't be written: {error.strerror}"
            raise click.UsageError(msg) from error
    if as_json:
        write_line(json.dumps(render_comparison(found)))
    else:
        write_line("\n".join(describe_comparison(found)))
    # As diff(1) does.
    return int(found.is_different)
