"""`strandline init`: writes a first pipeline file, for a kind of input or a folder."""

from __future__ import annotations

import glob
import re
import sys
from collections import Counter
from collections.abc import Mapping
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import click
import yaml

from strandline.cli.app.options import show_examples
from strandline.cli.app.program import add_debug
from strandline.data.files.file_formats import RowFormat, find_ending, find_format
from strandline.data.files.globs import is_url
from strandline.data.files.listing import FileListParams, list_files

# Default inputs of each kind. Python's own sources exist on every machine.
DEFAULT_INPUTS = {
    "documents": "data/**/*",
    "code": "{stdlib}/json/**/*.py",
    "images": "data/**/*.png",
    "jsonl": "data/**/*.jsonl",
    "parquet": "data/**/*.parquet",
    "rows": "data/**/*",
}
# Endings of the kinds without rows. Compressed text counts as rows: `read-files` reads raw bytes.
_ENDINGS = {
    "documents": (".txt", ".md", ".html", ".htm"),
    "code": (".py",),
    "images": (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff"),
}
_SINGLE = {RowFormat.JSONL: "jsonl", RowFormat.PARQUET: "parquet"}
_LOOKED_AT = 10_000  # files of a folder, enough to find its kinds
_LONGEST_NAME = 40  # leaves characters for suffixes in names of pods


class FolderContents(NamedTuple):
    """The part of a folder that a pipeline reads.

    Attributes:
        kind: kind of input.
        endings: endings of the files to read.
    """

    kind: str
    endings: tuple[str, ...]


class _Input(click.Choice):  # type: ignore[type-arg] # generic from click 8.2 on
    """A kind of input, or a folder or URL whose files determine the kind."""

    def convert(
        self,
        value: Any,  # noqa: ANN401 - signature of click
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:  # noqa: ANN401 - signature of click
        # A kind takes precedence over a folder of the same name, which `./code` names.
        if value not in self.choices and not (is_url(value) or Path(value).is_dir()):
            kinds = ", ".join(self.choices)
            self.fail(f"{value!r} is neither a folder nor one of {kinds}", param, ctx)
        return value


@click.command(
    "init",
    epilog=show_examples(
        "strandline init data --out rows.yaml",
        "strandline init code --out functions.yaml",
        "strandline init documents --input 'docs/**/*.md' --out docs.yaml",
    ),
)
@click.argument("kind", metavar="KIND|FOLDER", type=_Input(tuple(DEFAULT_INPUTS)))
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="PATTERN",
    help="With a KIND: what to read, as a glob or URL; repeatable.  [default: data/**/*, by kind]",
)
@click.option(
    "--out",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    default="pipeline.yaml",
    show_default=True,
    help="File to write; an existing file is never overwritten.",
)
@add_debug
def init(kind: str, inputs: tuple[str, ...], path: Path) -> None:
    """Write a first pipeline file for a KIND or FOLDER of input.

    KIND is `documents`, `code`, `images`, `jsonl`, `parquet`, or `rows` (CSV, JSON Lines, Parquet,
    Arrow, and text side by side). For a folder or URL, the names of its files determine the kind.
    The file is commented and runs as it is. Adapt it, then check it with `strandline validate`.
    """
    if kind in DEFAULT_INPUTS:
        text = render_template(kind, inputs or (DEFAULT_INPUTS[kind],), path)
    elif inputs:
        raise click.UsageError(f"--input needs a KIND; {kind} is a folder, which is the input")
    else:
        text = _render_folder(kind, path)
    try:
        # Mode `x` rejects an existing file, without a race between a check and the creation.
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        msg = f"{path} already exists; name another file with --out"
        raise click.UsageError(msg) from error
    except OSError as error:
        msg = f"{path} can't be written: {error.strerror}"
        raise click.UsageError(msg) from error
    click.echo(f"wrote {path}; next: strandline plan {path} --list")


def _render_folder(folder: str, path: Path) -> str:
    """Render the template for a folder's files, and report what the pipeline reads."""
    base = glob.escape(folder.rstrip("/"))
    everything = f"{base}/**/*"
    try:
        entries = list_files(FileListParams(paths=(everything,)), lambda _: None, lambda *_: None)
        endings = Counter(find_ending(entry.path) for entry in islice(entries, _LOOKED_AT))
    except (OSError, ValueError, ImportError) as error:
        msg = f"{folder}: can't be listed: {error}"
        raise click.UsageError(msg) from error
    contents = find_contents(endings)
    if contents is None:
        what = f"found {_count_endings(endings)}" if endings else "the folder has no files"
        msg = f"{folder}: no file has a known ending; {what}; name a KIND and use --input"
        raise click.UsageError(msg)
    read = {each: endings[each] for each in contents.endings}
    left = {each: number for each, number in endings.items() if each not in read}
    rest = f"; left out: {_count_endings(left)}" if left else ""
    click.echo(f"{folder}: {_count_endings(read)}{rest}")
    # The reader of rows counts the other files, so it may list them.
    patterns = tuple(f"{base}/**/*{each}" for each in contents.endings)
    return render_template(
        contents.kind, (everything,) if contents.kind == "rows" else patterns, path
    )


def find_contents(endings: Mapping[str, int]) -> FolderContents | None:
    """Return what a pipeline reads of a folder, or None if it has no file of a known kind.

    Args:
        endings: number of files by the ending of their names, such as `.csv.gz`.
    """
    known_formats = {each: find_format(f"x{each}") for each in endings}
    rows = {each: form for each, form in known_formats.items() if form is not None}
    formats = {*rows.values()}
    if len(formats) == 1 and formats <= _SINGLE.keys():
        return FolderContents(_SINGLE[formats.pop()], tuple(sorted(rows)))
    if any(form is not RowFormat.TEXT or each.lower() != ".txt" for each, form in rows.items()):
        return FolderContents("rows", tuple(sorted(rows)))
    of_kind = {
        kind: [each for each in sorted(endings) if each.lower() in known]
        for kind, known in _ENDINGS.items()
    }
    kind = max(of_kind, key=lambda each: sum(endings[ending] for ending in of_kind[each]))
    return FolderContents(kind, tuple(of_kind[kind])) if of_kind[kind] else None


def _count_endings(endings: Mapping[str, int]) -> str:
    return ", ".join(
        f"{number} {ending or 'without an ending'}" for ending, number in sorted(endings.items())
    )


def render_template(kind: str, inputs: tuple[str, ...], path: Path) -> str:
    """Render the template for a kind of input as a pipeline file.

    Args:
        inputs: globs or URLs.
        path: path of the new file; its stem becomes the pipeline's name.
    """
    template = files(__package__).joinpath("templates", f"{kind}.yaml").read_text(encoding="utf-8")
    values = {
        "FILE": str(path),
        "NAME": make_name(path.stem, kind),
        "INPUT": _format_list(inputs),
    }
    # Matches placeholders like `@NAME@`.
    return re.sub(r"@([A-Z]+)@", lambda found: values[found[1]], template)


def _format_list(items: tuple[str, ...]) -> str:
    # Set no limit on the width, so that the list stays on the template's line.
    text = yaml.safe_dump(
        list(items), default_flow_style=True, allow_unicode=True, width=sys.maxsize
    )
    return text.strip()


def make_name(stem: str, kind: str) -> str:
    """Make a Kubernetes name from a file's name.

    Return the kind for the name `pipeline`, and for names without a letter at the start.
    """
    # Strip again after the cut, which may leave a hyphen at the end.
    name = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:_LONGEST_NAME].strip("-")
    # The name must begin with a letter, as names of Kubernetes services do.
    return name if name != "pipeline" and name[:1].isalpha() else kind
