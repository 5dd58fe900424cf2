"""`strandline init`: writes a first pipeline file with comments, for a kind of input."""

from __future__ import annotations

import re
import sys
from importlib.resources import files
from pathlib import Path

import click
import yaml

from strandline.cli.app.options import show_examples
from strandline.cli.app.program import add_debug

# Default inputs of each kind. Python's own sources exist on every machine.
DEFAULT_INPUTS = {
    "documents": "data/**/*",
    "code": "{stdlib}/json/**/*.py",
    "images": "data/**/*.png",
    "jsonl": "data/**/*.jsonl",
    "parquet": "data/**/*.parquet",
}
_LONGEST_NAME = 40  # leaves characters for suffixes in names of pods


@click.command(
    "init",
    epilog=show_examples(
        "strandline init code --out functions.yaml",
        "strandline init documents --input 'docs/**/*.md' --out docs.yaml",
    ),
)
@click.argument("kind", type=click.Choice(tuple(DEFAULT_INPUTS)))
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="PATTERN",
    help="What to read, as a glob or URL; repeatable.  [default: data/**/*, by kind]",
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
    """Write a first pipeline file for a KIND of input.

    KIND is `documents`, `code`, `images`, `jsonl` or `parquet`. The file is commented and runs as
    it is. Adapt it, then check it with `strandline validate`.
    """
    text = render_template(kind, inputs or (DEFAULT_INPUTS[kind],), path)
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
