"""The commands by name. A command is loaded when called, so the parent of a driver stays small.

Packs may add commands. If a pack's command has the name of a command in the table, the table wins.
"""

from __future__ import annotations

from difflib import get_close_matches

import click

from strandline.cli.app.program import HELP, Program, load_command
from strandline.plan.stages.packs import load_packs

_ROOMS = {
    "run": "runs.run:run",
    "drive": "runs.drive:drive",
    "fetch-code": "pipelines.fetch:fetch",
    "preflight": "pipelines.preflight:preflight",
    "retry": "runs.retry:retry",
    "drain": "runs.drain:drain",
    "leave": "runs.leave:leave",
    "attempts": "runs.attempts:attempts",
    "failures": "runs.failures:failures",
    "init": "pipelines.init:init",
    "validate": "pipelines.manifest:validate",
    "plan": "pipelines.manifest:plan",
    "describe": "pipelines.manifest:describe",
    "render": "pipelines.render:render",
    "stages": "pipelines.stages:stages",
    "ledger": "data.ledgers.ledger:ledger",
    "report": "runs.report:report",
    "card": "data.readers.card:card",
    "push": "data.readers.push:push",
    "top": "runs.top:top",
    "latest": "data.readers.latest:latest",
    "dropped": "data.dropped:dropped",
    "tune": "data.tune:tune",
    "gather": "data.gather:gather",
    "kept": "runs.kept:kept",
    "verify": "data.ledgers.verify:check",
    "repair": "data.ledgers.repair:repair",
    "doctor": "pipelines.doctor:doctor",
    "version": "pipelines.version:show_version",
}


class Commands(Program):
    """The commands of the table above, and the commands of packs."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of the commands, in the order of the overview."""
        return [*_ROOMS, *_list_pack_commands()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return the loaded command, or None if the name is unknown."""
        if cmd_name in _ROOMS:
            return load_command(f"strandline.cli.commands.{_ROOMS[cmd_name]}")
        target = _list_pack_commands().get(cmd_name)
        return None if target is None else _load_pack_command(cmd_name, target)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the requested command. For an unknown name, suggest the nearest name."""
        # Leave unknown options like `--verison` to click, which has its own message for options.
        if args and not args[0].startswith("-") and not _is_known(args[0]):
            nearest = get_close_matches(args[0], self.list_commands(ctx), n=1)
            hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
            msg = f"No such command {args[0]!r}.{hint}"
            raise click.UsageError(msg, ctx)
        return super().resolve_command(ctx, args)


def _is_known(name: str) -> bool:
    return name in _ROOMS or name in _list_pack_commands()


def _load_pack_command(name: str, target: str) -> click.Command:
    """Return the command of a pack. A broken command fails when called, not in the overview."""
    try:
        return load_command(target)
    except Exception as error:  # noqa: BLE001 - a pack's module may raise any error
        message = f"the command {name!r} of a pack can't be loaded ({target}): {error}"

    def fail() -> None:
        raise click.ClickException(message)

    return click.Command(name, callback=fail, short_help="can't be loaded")


def _list_pack_commands() -> dict[str, str]:
    """Return the packs' commands as `module:command`, by name. The first pack with a name wins."""
    # Reverse the packs so that the first pack wins: a repeated key keeps its last value.
    packs = reversed([*load_packs().packs.values()])
    return {name: target for pack in packs for name, target in pack.commands.items()}


@click.group("strandline", cls=Commands, context_settings=HELP)
@click.version_option(package_name="strandline", message="%(prog)s %(version)s")
def program() -> None:
    """Resumable data curation on Ray: one YAML file, and a ledger of what is finished."""
