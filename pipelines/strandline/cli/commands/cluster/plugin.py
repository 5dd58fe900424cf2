"""The commands of `kubectl strandline` by name. A command is loaded when called."""

from __future__ import annotations

import click

from strandline.cli.app.program import HELP, Program, load_command
from strandline.cli.commands.cluster.session import take_cluster

_FOLDER = "strandline.cli.commands.cluster"
_ROOMS = {
    "attempts": "attempts:list_attempts",
    "logs": "attempts:show_log",
    "retry": "requests:retry",
    "cancel": "requests:cancel",
    "suspend": "requests:suspend",
    "resume": "requests:resume",
    "wait": "requests:wait",
    "cp": "copying:copy_files",
    "claims": "ledger_claims:list_claims",
}
# Commands that transfer files, by the words of the local command.
_OF_FILES = {
    ("ledger", "backup"): "ledger_copies:back_up",
    ("ledger", "restore"): "ledger_copies:restore",
}
# Commands that need the volume, by the words of the local command.
_ON_CLAIMS = {
    "plan": ("plan",),
    "verify": ("verify",),
    "report": ("report",),
    "card": ("card",),
    "failures": ("failures",),
    "top": ("top",),
    "ledger": ("ledger",),
    "quarantine": ("ledger", "quarantine"),
}


class ClusterCommands(Program):
    """The commands in `_ROOMS` and `_ON_CLAIMS`."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of the commands, in the order of the overview."""
        return [*_ROOMS, *_ON_CLAIMS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return the loaded command, or None if the name is unknown."""
        if cmd_name in _ON_CLAIMS:
            return _make(_ON_CLAIMS[cmd_name], (cmd_name,))
        if cmd_name not in _ROOMS:
            return None
        return load_command(f"{_FOLDER}.{_ROOMS[cmd_name]}")


def _make(path: tuple[str, ...], shown: tuple[str, ...]) -> click.Command:
    """Create the command with a path, or a group of all commands below the path."""
    # This import loads the local commands, which most commands of this plugin do not need.
    from strandline.cli.commands.cluster.claims import (  # noqa: PLC0415
        USES,
        find_command,
        make_claim_command,
    )

    if path in _OF_FILES:
        return load_command(f"{_FOLDER}.{_OF_FILES[path]}")
    if path in USES:
        return make_claim_command(path, shown)
    own = find_command(path)
    group = click.Group(path[-1], help=own.help)
    known_paths = (*USES, *_OF_FILES)
    # For `("ledger",)`, the paths below are `("ledger", "stats")`, `("ledger", "quarantine")`, and
    # so on.
    below = {known[: len(path) + 1] for known in known_paths if known[: len(path)] == path}
    for inner in sorted(below):
        group.add_command(_make(inner, (*shown, inner[-1])))
    return group


@click.group("kubectl strandline", cls=ClusterCommands, context_settings=HELP)
@click.version_option(package_name="strandline", message="%(prog)s %(version)s")
@take_cluster
def plugin() -> None:
    """Inspect and control pipelines on a cluster, through your own kubectl.

    NAME is the name of a CurationPipeline. Commands that need its volume run in a Job.
    """
