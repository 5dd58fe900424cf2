"""The commands by name. Each is loaded when it is called: the parent of a driver stays small."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from strandline.cli.program import Program

_HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_ROOMS = {
    "run": "run_command:run",
    "drive": "drive_command:drive",
    "fetch-code": "fetch_command:fetch",
    "retry": "retry_command:retry",
    "drain": "drain_command:drain",
    "attempts": "attempts_command:attempts",
    "validate": "manifest_commands:validate",
    "plan": "manifest_commands:plan",
    "describe": "manifest_commands:describe",
    "stages": "stages_command:stages",
    "ledger": "ledger_commands:ledger",
    "report": "report_command:report",
    "top": "top_command:top",
    "latest": "latest_command:latest",
    "gather": "gather_command:gather",
    "near-duplicates": "near_duplicates_command:near_duplicates",
    "verify": "verify_command:check",
    "doctor": "doctor_command:doctor",
    "version": "version_command:show_version",
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
        command: Any = getattr(import_module(f"strandline.cli.{module}"), name)
        assert isinstance(command, click.Command)  # by the table
        return command


@click.group("strandline", cls=Commands, context_settings=_HELP)
def program() -> None:
    """Resumable data curation on Ray: one YAML file, and a ledger of what is finished."""
