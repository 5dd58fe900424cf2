"""`strandline fetch-code`: fetches users' code in an init container, before Ray starts."""

from __future__ import annotations

import json
from pathlib import Path

import click
from pydantic import ValidationError

from strandline.cli.app.last_message import leaving_message
from strandline.run.code.code import AT, fetch_code
from strandline_api.documents.problems import Problem, SpecError
from strandline_api.documents.stored import omit_unknown
from strandline_api.documents.validation import problems_of
from strandline_api.spec.code import Code


@click.command("fetch-code", hidden=True)
@click.argument("wanted", metavar="JSON")
@click.option("--into", "folder", type=click.Path(path_type=Path), required=True)
def fetch(wanted: str, folder: Path) -> None:
    """Fetch the code that JSON, the `spec.code` of a pipeline, names into a folder."""
    with leaving_message():
        fetch_code(_read(wanted), folder, lambda line: click.echo(line, err=True))


def _read(wanted: str) -> Code:
    """Return the `spec.code` that the operator passed as JSON.

    Unknown fields are ignored, because the operator may be newer.
    """
    try:
        written = json.loads(wanted)
    except ValueError as error:
        raise SpecError((Problem(AT, "is not JSON"),)) from error
    try:
        return Code.model_validate(omit_unknown(written, Code)[0])
    except ValidationError as error:
        raise SpecError(problems_of(error, Code, AT)) from error
