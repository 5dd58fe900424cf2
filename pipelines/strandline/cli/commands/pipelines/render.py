"""`strandline render`: prints the objects that an attempt of a pipeline would create on a cluster.

Only the operator can render manifests, and neither package imports the other, so this command runs
the operator's program from the same distribution.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import click

from strandline.cli.app.options import show_examples
from strandline.cli.app.program import add_debug
from strandline_api.outcome.exit_codes import ExitCode

_OPERATOR = "strandline_operator"


@click.command(
    "render",
    epilog=show_examples(
        "strandline render pipeline.yaml",
        "strandline render pipeline.yaml --on-demand head",
    ),
)
@add_debug
@click.argument(
    "file", metavar="FILE", type=click.Path(exists=True, dir_okay=False, allow_dash=True)
)
@click.option(
    "--on-demand",
    multiple=True,
    metavar="NAME",
    help="'head' or a worker group to render on on-demand nodes; repeatable.",
)
def render(file: str, on_demand: tuple[str, ...]) -> int:
    """Print the objects of an attempt of FILE on Kubernetes.

    The objects are printed as YAML, without contacting a cluster. They reflect the operator's
    defaults, or the STRANDLINE_ variables of the operator's pod if you set them here.
    """
    if find_spec(_OPERATOR) is None:
        click.echo(
            "strandline: `render` requires the operator, which this installation lacks", err=True
        )
        return ExitCode.APPLICATION_ERROR
    words = [word for name in on_demand for word in ("--on-demand", name)]
    # After `--`, a file name that begins with a dash is not an option.
    command = [sys.executable, "-m", f"{_OPERATOR}.commands.manifests", *words, "--", file]
    return subprocess.run(command, check=False).returncode  # noqa: S603 - a program of ours
