"""Compares each filter, and FineWeb's whole recipe, with datatrove's, and prints the tables.

    python -m strandline_bench.text.comparison [--documents N] [--recipe] [--write]

With --recipe, it compares only the recipe.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from strandline_bench.engines.rivals.index import HOW_TO_INSTALL, find_rival
from strandline_bench.ground.document import write_table
from strandline_bench.ground.folders import EXAMPLES, ROOT
from strandline_bench.text.agreement import (
    Agreement,
    compare_all,
    describe_differing,
    format_agreements,
)
from strandline_bench.text.documents import list_documents

DOCUMENT = ROOT / "docs" / "text-filters.md"
LEAST, LEAST_OF_RECIPE = 0.995, 0.99


def main() -> int:
    """Compare and print; with --write, also write the tables into the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=3000, metavar="N")
    parser.add_argument("--recipe", action="store_true", help="compare the recipe alone")
    parser.add_argument("--write", action="store_true", help="put the tables into the document")
    options = parser.parse_args()
    if not find_rival("datatrove").is_installed():
        sys.stderr.write(f"strandline: datatrove: {HOW_TO_INSTALL}\n")
        return 1
    is_good = options.recipe or _report_filters(options.documents, is_written=options.write)
    is_good &= _report_recipe(options.documents, is_written=options.write)
    return int(not is_good)


def _report_filters(count: int, *, is_written: bool) -> bool:
    texts = list_documents(count)
    found = list(compare_all(texts))
    _report(found, len(texts), "agreement", is_written=is_written)
    return min(each.share for each in found if "compatible" in each.name) >= LEAST


def _report_recipe(count: int, *, is_written: bool) -> bool:
    sys.path.append(str(EXAMPLES))
    from strandline_bench.text.recipes.recipe import RecipeRuns, compare_recipes  # noqa: PLC0415 - it needs the path

    with tempfile.TemporaryDirectory(prefix="strandline-agreement-") as folder:
        runs = RecipeRuns(Path(folder), count // 2, count // 2, is_compatible=True)
        found = compare_recipes(runs)
        _report(found, len(runs.pages), "recipe agreement", is_written=is_written)
    return min(each.share for each in found) >= LEAST_OF_RECIPE


def _report(found: Sequence[Agreement], count: int, marker: str, *, is_written: bool) -> None:
    for each in found:
        sys.stdout.writelines(f"{line}\n" for line in describe_differing(each))
    table = format_agreements(found)
    sys.stdout.write(table)
    if is_written:
        head = f"{count:,} documents, datatrove {version('datatrove')}."
        write_table(DOCUMENT, f"{head}\n\n{table}", marker)


if __name__ == "__main__":
    sys.exit(main())
