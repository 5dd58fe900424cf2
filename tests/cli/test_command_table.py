"""The tables name commands by strings. This test loads each command, including subcommands."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from strandline.cli.app.commands import program
from strandline.cli.commands.cluster.plugin import plugin


def load_all(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, f"{' '.join((*path, name))} names no command"
        yield (*path, name)
        if isinstance(command, click.Group):
            yield from load_all(command, (*path, name))


@pytest.mark.parametrize(("group", "least"), [(program, 31), (plugin, 15)])
def test_each_command_can_be_loaded(group: click.Group, least: int) -> None:
    assert len(list(load_all(group))) >= least
