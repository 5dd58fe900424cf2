"""Base of every command: turns errors into a sentence on stderr and an exit code.

The module must not depend on the purpose of any command.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import click

from strandline.cli.app.advice import describe_command
from strandline.cli.app.json_output import find_text
from strandline.cli.app.signals import StoppedAtOnceError
from strandline.ledger.errors import LedgerError
from strandline.plan.errors import StrandlineError, code_of
from strandline.plan.stages.packs import load_target
from strandline_api.documents.problems import SpecError
from strandline_api.outcome.exit_codes import ExitCode

HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
KEYS_PRESSED = 130  # a shell's exit code after Ctrl-C
PIPE_CLOSED = 141  # a shell's exit code after writing to a closed pipe


class Program(click.Group):
    """A group of commands with documented exit codes. It prints tracebacks only on request."""

    def main(  # type: ignore[override]
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        **extra: Any,  # noqa: ANN401 - click's own signature
    ) -> NoReturn:
        # In standalone mode, click ends the process with exit codes 1 and 2 before errors can be
        # mapped to the documented codes.
        extra["standalone_mode"] = False
        try:
            code = super().main(args, prog_name, **extra)
        # Handle this subclass of ClickException first, because its message is the whole help page
        # and needs no "error:" prefix.
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            code = ExitCode.BAD_SPEC
        except click.ClickException as error:
            code = _show_usage_error(error)
        except click.Abort:
            code = KEYS_PRESSED
        sys.exit(int(code or 0))

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's own signature
        try:
            code = super().invoke(ctx)
            # Flush inside the `try` block, so that a closed pipe raises BrokenPipeError here and
            # not at exit.
            find_text().flush()
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except StoppedAtOnceError as error:
            show_error(str(error))
            return ExitCode.INTERRUPTED
        except BrokenPipeError:
            # Python flushes stdout again at exit, which would raise the same error.
            os.dup2(os.open(os.devnull, os.O_WRONLY), find_text().fileno())
            return PIPE_CLOSED
        except Exception as error:  # noqa: BLE001 - last place to turn an error into a message
            if ctx.meta.get("debug"):
                traceback.print_exc()
            for line in _add_advice(error, explain(error), ctx):
                show_error(line)
            return code_of(error)
        return code


def load_command(target: str) -> click.Command:
    """Return the command that a table of commands names as `module:name`."""
    command = load_target(target)
    assert isinstance(command, click.Command)  # true for all entries of the table
    return command


def explain(error: Exception) -> list[str]:
    """Explain an exception to the person at the terminal, one problem per line."""
    if isinstance(error, SpecError):
        return [" ".join(str(problem).split("\n")) for problem in error.problems]
    if isinstance(error, (StrandlineError, ConnectionError)):
        return [str(error)] if isinstance(error, LedgerError) else [" ".join(str(error).split())]
    text = " ".join(str(error).split())
    what = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return [f"unexpected {what}; run the command again with --debug for the traceback"]


def _add_advice(error: Exception, lines: list[str], ctx: click.Context) -> list[str]:
    advice = error.advice if isinstance(error, StrandlineError) else None
    if advice is None:
        return lines
    # After a message of several lines, a semicolon would connect the advice with the last line
    # only.
    between = "\n" if "\n" in lines[-1] else "; "
    return [*lines[:-1], f"{lines[-1]}{between}for example: `{describe_command(advice, ctx)}`"]


def show_error(sentence: str) -> None:
    """Print an error to stderr."""
    click.echo(f"strandline: error: {sentence}", err=True)


def take_debug(ctx: click.Context, _option: click.Parameter, value: bool) -> None:
    """Record for `Program.invoke` that tracebacks are requested."""
    ctx.meta["debug"] = value


def add_debug(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option `--debug` to a command."""
    return click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        callback=take_debug,
        help="Show the traceback of an error.",
    )(command)


def _show_usage_error(error: click.ClickException) -> ExitCode:
    hint = ""
    if isinstance(error, click.UsageError) and error.ctx is not None:
        hint = f"; see `{error.ctx.command_path} --help`"
    # Remove the period at the end of click's messages, because a semicolon and the hint follow.
    show_error(f"{error.format_message().rstrip('.')}{hint}")
    return ExitCode.BAD_SPEC
