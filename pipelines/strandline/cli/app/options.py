"""Arguments and options that several commands share, with one spelling and one meaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import click

from strandline.cli.app.advice import note_file, remember_file
from strandline.cli.app.json_output import reserve
from strandline.cli.app.program import add_debug
from strandline.run.attempt.engines import ENGINES
from strandline.storage.layout import VOLUME, list_folders, require_folder
from strandline_api.objects.removed_engine import ENGINE_REMOVED, REMOVED_ENGINE

Command = Callable[..., Any]


def _keep_output(ctx: click.Context, _option: click.Parameter, is_asked: bool) -> bool:
    """Reserve standard output for JSON while options are parsed, before modules are loaded."""
    # Shell completion also parses options, and must not lose standard output.
    if is_asked and not ctx.resilient_parsing:
        reserve(ctx)
    return is_asked


# Key of the volume of a pipeline that the command line names by its folder, such as `data/notes`.
_VOLUME_KEY = "strandline.volume"


def _find_manifest(ctx: click.Context, path: Path) -> Path:
    """Return the manifest of a folder `VOLUME/NAME` or `VOLUME/NAMESPACE/NAME`, or a file itself.

    The folder's volume becomes the default of `--volume`.

    Raises:
        BadParameter: a folder has no manifest, or two folders are on different volumes.
    """
    manifests = (each.manifest for each in list_folders(path))
    found = next((each for each in manifests if each.is_file()), None)
    if path.is_file() or (found is None and not path.is_dir()):
        return path
    if found is None:
        msg = (
            f"{path}: this is a folder; pass the YAML file in it, or the folder VOLUME/NAME of a "
            "pipeline that `Pipeline.run` of Python has run"
        )
        raise click.BadParameter(msg)
    volume = found.parents[2]
    if ctx.meta.setdefault(_VOLUME_KEY, volume) != volume:
        msg = f"{path}: the pipelines are on different volumes"
        raise click.BadParameter(msg)
    return found


def _note_manifest(ctx: click.Context, parameter: click.Parameter, path: Path) -> object:
    """Resolve and store the file argument of a command, as a callback of click."""
    return note_file(ctx, parameter, _find_manifest(ctx, path))


def _find_manifests(
    ctx: click.Context, _parameter: click.Parameter, paths: tuple[Path, ...]
) -> tuple[Path, ...]:
    """Resolve the file arguments of a command, as a callback of click."""
    return tuple(_find_manifest(ctx, path) for path in paths)


def _choose_volume(ctx: click.Context, volume: Path) -> Path:
    """Return the volume of a folder on the command line, unless `--volume` names another."""
    is_default = ctx.get_parameter_source("volume") is click.core.ParameterSource.DEFAULT
    found: Path = ctx.meta.get(_VOLUME_KEY, volume) if is_default else volume
    return found


def _require_folder(ctx: click.Context, _option: click.Parameter, volume: Path) -> Path:
    try:
        return require_folder(_choose_volume(ctx, volume))
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


take_file = click.argument("file", type=click.Path(path_type=Path), callback=_note_manifest)
take_files = click.argument(
    "files", nargs=-1, required=True, type=click.Path(path_type=Path), callback=_find_manifests
)
take_volume = click.option(
    "--volume",
    type=click.Path(path_type=Path),
    default=VOLUME,
    callback=_require_folder,
    show_default=True,
    help="Folder for ledger, attempts and, if the sink has no path, the output.",
)
take_json = click.option(
    "--json",
    "as_json",
    is_flag=True,
    callback=_keep_output,
    help="Print JSON for scripts; all other output goes to stderr.",
)
take_settings = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="PATH=VALUE",
    help="Change the manifest before it is checked, such as stages.0.with.minWords=5; repeatable.",
)


class _EngineName(click.Choice):  # type: ignore[type-arg] # generic from click 8.2 on
    """The name of an engine. For the removed engine, the error says that it was removed."""

    def convert(
        self,
        value: Any,  # noqa: ANN401 - signature of click
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:  # noqa: ANN401 - signature of click
        if value == REMOVED_ENGINE:
            self.fail(ENGINE_REMOVED, param, ctx)
        return super().convert(value, param, ctx)


def take_engine(command: Command) -> Command:
    """Add the options that choose the engine and its resources."""
    options = (
        click.option(
            "--engine",
            type=_EngineName(ENGINES),
            help="`processes` runs on all cores, `ray` also on a cluster, `inline` in one process "
            "for debugging; by default the file's engine, or `processes` if the pipeline does "
            "not need Ray.",
        ),
        click.option(
            "--address", help="Address of a running Ray cluster; by default a local one is started."
        ),
        click.option(
            "--workers",
            type=click.IntRange(min=1),
            help="Cores of this machine to use.  [default: all]",
        ),
        click.option(
            "--after",
            metavar="CAUSE",
            help="Cause of the previous attempt's end, such as Preempted, if only the caller can "
            "determine it.",
        ),
    )
    # Apply the last option first, because click lists options in reverse order of application.
    for option in reversed(options):
        command = option(command)
    return command


def show_examples(*lines: str) -> str:
    """Return the last paragraph of a command's help: example command lines."""
    head = "Example:" if len(lines) == 1 else "Examples:"
    # A first line `\b` prevents click from rewrapping the paragraph.
    return "\n".join(("\b", head, *(f"  {line}" for line in lines)))


def take_manifests(command: Command) -> Command:
    """Add the arguments of commands that read several manifests: FILES, --set, and --debug."""
    return take_files(take_settings(add_debug(command)))


def take_manifest(command: Command) -> Command:
    """Add the arguments of commands that read a manifest: FILE, --set, and --debug."""
    return take_file(take_settings(add_debug(command)))


def repeat_arguments(file: Path, settings: Sequence[str]) -> list[str]:
    """Return the words that name the file and its changes on another command line."""
    return [str(file), *(word for each in settings for word in ("--set", each))]


def repeat_volume(volume: Path) -> list[str]:
    """Return the words that name a volume on another command line, or none for the default."""
    return ["--volume", str(volume)] if volume != Path(VOLUME) else []


def each_pipeline(
    command: Command,
    *,
    concerns: Callable[[Path, dict[str, Any]], bool] = lambda *_: True,
    folder: str | None = None,
) -> Command:
    """Run a command of `take_manifest` for each pipeline of a file with several.

    A line names the pipeline before its output, unless the output is JSON. The exit code is the
    largest of all.

    Args:
        concerns: returns whether the options concern a pipeline. If they concern no pipeline, the
            command runs for all and reports why.
        folder: option that must name a folder if there are several pipelines, because in a single
            file, the data of one pipeline would replace that of another; None if there is none.
    """

    @wraps(command)
    def run(file: Path, **options: Any) -> int:  # noqa: ANN401 - the options of a command
        paths = _list_paths(file)
        if len(paths) == 1:
            return command(file=file, **options) or 0
        if options.get("settings") or options.get("out"):
            named = ", ".join(map(str, paths))
            msg = f"--set and --out need a single pipeline; name one of these {len(paths)}: {named}"
            raise click.UsageError(msg)
        if folder is not None and not options[folder].is_dir():
            what = f"name one for the copies of {len(paths)} ledgers"
            raise click.UsageError(f"{options[folder]} is not a folder; {what}")
        paths = [path for path in paths if concerns(path, options)] or paths
        codes = []
        for path in paths:
            if not options.get("as_json"):
                click.echo(f"{str(path).rpartition('#')[2]}:")
            remember_file(click.get_current_context(), path)
            codes.append(command(file=path, **options) or 0)
        return max(codes)

    return run


def _list_paths(file: Path) -> list[Path]:
    from strandline.run.manifest.yaml_file import list_pipelines  # noqa: PLC0415 - slow to load

    try:
        return list_pipelines(file)
    except ValueError:  # a SpecError, which the command reports
        return [file]
