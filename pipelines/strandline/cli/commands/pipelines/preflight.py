"""`strandline preflight`: what a Job runs before a Ray cluster is made for a pipeline.

It finds what `validate` finds, in the image and with the code of the run. Fields that this image
does not know are no mistakes of a pipeline that an API server has taken, as for a driver.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import click

from strandline.cli.app.last_message import leaving_message
from strandline.run.code.requirements import check_requirements
from strandline.run.manifest.manifest import read_manifest


@click.command("preflight", hidden=True)
@click.argument("document", metavar="JSON")
def preflight(document: str) -> None:
    """Check JSON, a pipeline as its driver would be given it: fields, stages, parameters."""
    with leaving_message(), TemporaryDirectory() as folder:
        path = Path(folder) / "pipeline.yaml"
        path.write_text(document, encoding="utf-8")
        check_requirements(read_manifest(path, volume=Path(folder)).plan)
