"""Chooses title and license of a data set, from an option or from the pipeline's annotations."""

from __future__ import annotations

import re

import click

from strandline_api.names import LICENSE_ANNOTATION, TITLE_ANNOTATION
from strandline_api.objects.pipeline import ObjectMeta

# Matches `cc-by-4.0`, `mit`, and `gpl-3.0+`, but not `CC BY 4.0`.
_LICENSE = re.compile(r"[a-z0-9][a-z0-9.+-]*")


def choose_license(metadata: ObjectMeta, value: str | None = None) -> str | None:
    """Return the license identifier from the option or the pipeline.

    Raises:
        UsageError: the value is not an identifier.
    """
    named = value or metadata.annotations.get(LICENSE_ANNOTATION)
    if named is None:
        return None
    if not _LICENSE.fullmatch(named.lower()):
        msg = f"{named!r} is not a license identifier such as cc-by-4.0"
        raise click.UsageError(msg)
    return named.lower()


def find_title(metadata: ObjectMeta) -> str:
    """Return the data set's name for people."""
    plain = metadata.name.replace("-", " ").capitalize()
    return metadata.annotations.get(TITLE_ANNOTATION) or plain
