"""Commands by name. Commands are loaded when called, so the overview appears quickly.

Packs may add commands. If a pack's command has the name of a command in the table, the table takes
precedence.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import NamedTuple

import click

from strandline.cli.app.program import HELP, Program, load_command
from strandline.plan.stages.packs import load_packs


class CommandEntry(NamedTuple):
    """An entry of the command table.

    Attributes:
        target: `module:name` of the command, below `strandline.cli.commands`.
        summary: the first sentence of its help, for the overview; empty if the overview omits it.
    """

    target: str
    summary: str = ""


_ROOMS = {
    "run": CommandEntry(
        "runs.run:run", "Run the pipelines in FILES, or continue where they stopped."
    ),
    "drive": CommandEntry("runs.drive:drive"),
    "fetch-code": CommandEntry("pipelines.fetch:fetch"),
    "preflight": CommandEntry("pipelines.preflight:preflight"),
    "retry": CommandEntry(
        "runs.retry:retry", "Run one attempt of FILE now, despite its `retry` policy."
    ),
    "drain": CommandEntry("runs.drain:drain", "Stop the run of FILE on this machine."),
    "leave": CommandEntry(
        "runs.leave:leave", "Report to a run's driver that this Ray node is going away."
    ),
    "attempts": CommandEntry(
        "runs.attempts:attempts", "List the attempts of a pipeline, or show one."
    ),
    "failures": CommandEntry(
        "runs.failures:failures", "Show why sources and rows failed, by stage and error."
    ),
    "init": CommandEntry(
        "pipelines.init:init", "Write a first pipeline file for a KIND or FOLDER of input."
    ),
    "validate": CommandEntry(
        "pipelines.manifest:validate", "Check FILES: YAML, fields, stages, parameters, packages."
    ),
    "plan": CommandEntry(
        "pipelines.manifest:plan", "Show what a run of FILES would do, and run nothing."
    ),
    "describe": CommandEntry(
        "pipelines.manifest:describe", "Print FILE with every default filled in."
    ),
    "render": CommandEntry(
        "pipelines.render:render", "Print the objects of an attempt of FILE on Kubernetes."
    ),
    "stages": CommandEntry(
        "pipelines.stages:stages", "List the stages, or show NAME with its parameters."
    ),
    "ledger": CommandEntry("data.ledgers.ledger:ledger", "Inspect a ledger, and repair it."),
    "report": CommandEntry("runs.report:report", "Write an HTML page that shows the run of FILES."),
    "card": CommandEntry("data.readers.card:card", "Write the data set's card next to its files."),
    "push": CommandEntry(
        "data.readers.push:push", "Deliver a complete run's files to their readers."
    ),
    "top": CommandEntry("runs.top:top", "Show the current state of a run, until q or Ctrl-C."),
    "latest": CommandEntry(
        "data.readers.latest:latest", "Print the folder of the latest publication."
    ),
    "diff": CommandEntry("data.readers.diff:diff", "Compare two data sets or recipes, A and B."),
    "dropped": CommandEntry(
        "data.dropped:dropped", "Count the rows that stages marked, and show some."
    ),
    "trace": CommandEntry(
        "data.trace:trace", "Show what each stage did with a row, and where it is."
    ),
    "tune": CommandEntry("data.tune:tune", "Count the rows that a filter's limits drop."),
    "gather": CommandEntry(
        "data.gather:gather", "Merge gathered statistics and publish the results."
    ),
    "kept": CommandEntry("runs.kept:kept", "Show and prune the outputs of stages with `keep`."),
    "verify": CommandEntry("data.ledgers.verify:check", "Check that output and ledger agree."),
    "repair": CommandEntry(
        "data.ledgers.repair:repair", "Reset missing or damaged results for the next run."
    ),
    "doctor": CommandEntry(
        "pipelines.doctor:doctor", "Check machine, volume and ledgers, and print advice."
    ),
    "version": CommandEntry("pipelines.version:show_version", "Print the version."),
}


class Commands(Program):
    """The commands of the table above, and the commands of packs."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of the commands, in the order of the overview."""
        return [*_ROOMS, *_list_pack_commands()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Return the loaded command, or None if the name is unknown."""
        if cmd_name in _ROOMS:
            return load_command(f"strandline.cli.commands.{_ROOMS[cmd_name].target}")
        target = _list_pack_commands().get(cmd_name)
        return None if target is None else _load_pack_command(cmd_name, target)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the overview without loading commands that have a summary."""
        summaries = list_summaries()
        shown = {name: click.Command(name, help=text) for name, text in summaries.items()}
        for name in _list_pack_commands().keys() - _ROOMS.keys() - summaries.keys():
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                shown[name] = command
        names = [name for name in self.list_commands(ctx) if name in shown]
        width = formatter.width - 6 - max(map(len, names))
        with formatter.section("Commands"):
            formatter.write_dl([(name, shown[name].get_short_help_str(width)) for name in names])

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


def list_summaries() -> dict[str, str]:
    """Return the summaries of commands by name, from the table and from packs."""
    own = {name: entry.summary for name, entry in _ROOMS.items() if entry.summary}
    return own | _list_pack_summaries()


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


def _list_pack_summaries() -> dict[str, str]:
    """Return the summaries of the packs' commands, by command name."""
    commands, packs = _list_pack_commands(), load_packs().packs.values()
    return {
        name: pack.summaries[name]
        for name, target in commands.items()
        for pack in packs
        if name in pack.summaries and pack.commands.get(name) == target
    }


@click.group("strandline", cls=Commands, context_settings=HELP)
@click.version_option(package_name="strandline", message="%(prog)s %(version)s")
def program() -> None:
    """Resumable data curation on Ray: one YAML file, and a ledger of what is finished."""
