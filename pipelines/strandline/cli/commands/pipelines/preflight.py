"""`strandline preflight`: checks a pipeline in a Job, before a Ray cluster is created.

The command makes the same checks as `validate`, in the run's image and with its code. As in a
driver, unknown fields are allowed: the API server has accepted them, so the image is merely older.
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
    """Check JSON, a pipeline in the form for a driver: fields, stages, parameters."""
    with leaving_message(), TemporaryDirectory() as folder:
        path = Path(folder) / "pipeline.yaml"
        path.write_text(document, encoding="utf-8")
        check_requirements(read_manifest(path, volume=Path(folder)).plan)
