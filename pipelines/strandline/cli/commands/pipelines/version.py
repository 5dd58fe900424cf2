"""`strandline version`: prints the versions of Strandline and its main libraries."""

from __future__ import annotations

import json
import platform
from importlib.metadata import PackageNotFoundError, version

import click

from strandline.cli.app.json_output import write_line
from strandline.cli.app.options import show_examples, take_json
from strandline.cli.app.program import add_debug

_PARTS = ("ray", "lmdb", "pyarrow", "pydantic")


@click.command("version", epilog=show_examples("strandline version --json"))
@add_debug
@take_json
def show_version(as_json: bool) -> None:
    """Print the version.

    With --json, also print the versions of Python and the main libraries.
    """
    own = _find_version("strandline")
    if not as_json:
        click.echo(f"strandline {own}")
        return
    parts = {part: _find_version(part) for part in _PARTS}
    write_line(json.dumps({"strandline": own, "python": platform.python_version(), **parts}))


def _find_version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
