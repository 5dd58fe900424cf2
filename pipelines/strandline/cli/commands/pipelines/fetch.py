"""`strandline fetch-code`: what a pod's init container runs before Ray starts in the pod."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from pydantic import ValidationError

from strandline.cli.app.program import explain
from strandline.plan.errors import code_of
from strandline.run.code.code import AT, fetch_code
from strandline.run.supervise.status_server import leave_message
from strandline_api.documents.problems import Problem, SpecError, problems_of
from strandline_api.documents.stored import omit_unknown
from strandline_api.outcome.driver_outcome import DriverOutcome
from strandline_api.spec.code import Code


@click.command("fetch-code", hidden=True)
@click.argument("wanted", metavar="JSON")
@click.option("--into", "folder", type=click.Path(path_type=Path), required=True)
def fetch(wanted: str, folder: Path) -> None:
    """Fetch what JSON, the `spec.code` of a pipeline, brings into a folder."""
    with _leaving_message():
        fetch_code(_read(wanted), folder, lambda line: click.echo(line, err=True))


def _read(wanted: str) -> Code:
    """Return what an operator asks for.

    Fields of a later one are ignored, as those of its pipelines.
    """
    try:
        written = json.loads(wanted)
    except ValueError as error:
        raise SpecError((Problem(AT, "is no JSON"),)) from error
    try:
        return Code.model_validate(omit_unknown(written, Code)[0])
    except ValidationError as error:
        raise SpecError(problems_of(error, Code, AT)) from error


@contextmanager
def _leaving_message() -> Iterator[None]:
    """Leave to the operator, in the pod's status, why it could not be done."""
    try:
        yield
    except Exception as error:
        message = "; ".join(explain(error))
        leave_message(DriverOutcome(exit_code=int(code_of(error)), message=message))
        raise
