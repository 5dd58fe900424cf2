"""`strandline near-duplicates`: makes a drop list from the signatures of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

import click

from strandline.cli.app.json_output import write_line
from strandline.cli.app.options import show_examples, take_json
from strandline.cli.app.program import add_debug
from strandline.cli.views.format import format_amount
from strandline.data.files.opening import UnreadableFileError
from strandline.plan.errors import StrandlineError
from strandline_api.outcome.exit_codes import ExitCode
from strandline_packs.dedup.key_lists import write_key_list
from strandline_packs.dedup.near.near_duplicates import find_near_duplicates
from strandline_packs.dedup.near.sketch_texts import SIGNATURES, read_signatures


class NoListError(StrandlineError):
    """Raised if the list of near-duplicates can't be made."""

    exit_code: ClassVar[ExitCode] = ExitCode.BAD_SPEC


@click.command(
    "near-duplicates",
    epilog=show_examples(
        "strandline near-duplicates signatures.parquet --out near-duplicates.parquet",
        "strandline near-duplicates strandline-data/default/texts/latest --out list.parquet "
        "--threshold 0.7",
    ),
)
@click.argument("signatures")
@add_debug
@click.option("--out", required=True, help="Parquet file or URL that the list is written to.")
@click.option(
    "--threshold",
    type=click.FloatRange(0.1, 1),
    default=0.8,
    show_default=True,
    help="Minimum share of a signature that two near-duplicates have in common.",
)
@take_json
def near_duplicates(signatures: str, out: str, threshold: float, as_json: bool) -> None:
    """List the near-duplicates in a corpus.

    SIGNATURES is a file that the stage `sketch-texts` has gathered, at a path or URL, or a folder
    that contains such a file, for example `latest`. The stage `drop-listed` drops the listed rows.
    """
    try:
        texts = list(read_signatures(_find_file(signatures)))
        found = find_near_duplicates(texts, threshold)
        write_key_list(out, found)
    # an unknown URL scheme and two texts with the same key both raise ValueError
    except (UnreadableFileError, ValueError, ImportError, OSError) as error:
        raise NoListError(str(error)) from error
    if as_json:
        write_line(json.dumps({"texts": len(texts), "nearDuplicates": len(found), "out": out}))
    else:
        dropped = format_amount(len(found), "near-duplicate")
        click.echo(f"{out}: {dropped} among {format_amount(len(texts), 'text')}")


def _find_file(path: str) -> str:
    folder = Path(path)
    if not folder.is_dir():
        return path
    found = sorted(folder.rglob(f"*{SIGNATURES}"))
    if len(found) != 1:
        msg = f"{path}: this folder has {len(found)} files of signatures; name one of them"
        raise NoListError(msg)
    return str(found[0])
