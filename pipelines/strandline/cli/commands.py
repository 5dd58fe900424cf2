"""The commands by name."""

from __future__ import annotations

import json
import platform
from importlib.metadata import PackageNotFoundError, version

import click

from strandline.cli.arguments import show_examples, take_json
from strandline.cli.ledger_commands import ledger
from strandline.cli.manifest_commands import describe, plan, validate
from strandline.cli.program import Program, add_debug
from strandline.cli.run_command import run
from strandline.cli.stages_command import stages
from strandline.cli.verify_command import check

_PARTS = ("ray", "lmdb", "pyarrow", "pydantic")
_HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group("strandline", cls=Program, context_settings=_HELP)
def program() -> None:
    """Resumable data curation on Ray: one YAML file, and a ledger of what is finished."""


@program.command("version", epilog=show_examples("strandline version --json"))
@add_debug
@take_json
def show_version(as_json: bool) -> None:
    """Print the version.

    With --json those of Python and of the libraries that matter too.
    """
    own = _find_version("strandline")
    if not as_json:
        click.echo(f"strandline {own}")
        return
    parts = {part: _find_version(part) for part in _PARTS}
    click.echo(json.dumps({"strandline": own, "python": platform.python_version(), **parts}))


def _find_version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


for _command in (run, validate, plan, describe, stages, ledger, check):
    program.add_command(_command)
