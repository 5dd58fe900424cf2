"""`strandline render`: what an attempt of a pipeline would be made of on a cluster.

Manifests are the operator's, and neither side imports the other: so its program is run, which the
same distribution has.
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
    help="'head' or a worker group, as after it has left spot nodes. May be repeated.",
)
def render(file: str, on_demand: tuple[str, ...]) -> int:
    """Print what an attempt of FILE is made of on Kubernetes.

    The objects are printed as YAML, and no cluster is asked. They are those of the operator's
    defaults, or of STRANDLINE_ variables as its pod has them.
    """
    if find_spec(_OPERATOR) is None:
        click.echo("strandline: this installation is without the operator, which renders", err=True)
        return ExitCode.APPLICATION_ERROR
    words = [word for name in on_demand for word in ("--on-demand", name)]
    command = [sys.executable, "-m", f"{_OPERATOR}.commands.manifests", *words, "--", file]
    return subprocess.run(command, check=False).returncode  # noqa: S603 - a program of ours
