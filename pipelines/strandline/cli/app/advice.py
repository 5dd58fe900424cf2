"""Renders the advice in errors as shell commands, with the file from the command line.

The module must not depend on the errors that give advice.
"""

from __future__ import annotations

import shlex

import click

from strandline.plan.errors import Advice

_KEY = "strandline.file"


def note_file(ctx: click.Context, _parameter: click.Parameter, value: object) -> object:
    """Store the file argument of a command, as a callback of click."""
    remember_file(ctx, value)
    return value


def remember_file(ctx: click.Context, file: object) -> None:
    """Store the file that the command processes from now on."""
    ctx.meta[_KEY] = str(file)


def describe_command(advice: Advice, ctx: click.Context) -> str:
    """Return the command line that an error recommends."""
    # Some commands take no file, so fall back to the placeholder FILE.
    words = ["strandline", *advice.command.split(), ctx.meta.get(_KEY, "FILE"), *advice.options]
    for field, value in advice.settings:
        words += ["--set", f"{field}={value}"]
    # Quote the words: settings like `stages.0.with={"minWords": 5}` contain spaces and quotes.
    return shlex.join(words)
