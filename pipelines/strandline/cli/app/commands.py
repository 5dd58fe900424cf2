"""The commands by name. Each is loaded when it is called: the parent of a driver stays small."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from strandline.cli.app.program import Program

_HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_ROOMS = {
    "run": "runs.run:run",
    "drive": "runs.drive:drive",
    "fetch-code": "pipelines.fetch:fetch",
    "retry": "runs.retry:retry",
    "drain": "runs.drain:drain",
    "attempts": "runs.attempts:attempts",
    "validate": "pipelines.manifest:validate",
    "plan": "pipelines.manifest:plan",
    "describe": "pipelines.manifest:describe",
    "stages": "pipelines.stages:stages",
    "ledger": "data.ledger:ledger",
    "report": "runs.report:report",
    "top": "runs.top:top",
    "latest": "data.latest:latest",
    "gather": "data.gather:gather",
    "near-duplicates": "data.near_duplicates:near_duplicates",
    "verify": "data.verify:check",
    "doctor": "pipelines.doctor:doctor",
    "version": "pipelines.version:show_version",
}


class Commands(Program):
    """The commands of the table above."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Their names, in the order of the overview."""
        return list(_ROOMS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of a name, loaded; None where there is none."""
        if cmd_name not in _ROOMS:
            return None
        module, _, name = _ROOMS[cmd_name].partition(":")
        command: Any = getattr(import_module(f"strandline.cli.commands.{module}"), name)
        assert isinstance(command, click.Command)  # by the table
        return command


@click.group("strandline", cls=Commands, context_settings=_HELP)
def program() -> None:
    """Resumable data curation on Ray: one YAML file, and a ledger of what is finished."""
