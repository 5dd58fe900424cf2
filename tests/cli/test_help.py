"""Every command's help ends in examples, and the examples work."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli_project import Call, Project, write_signatures
from command_server import execute_interpreter
from strandline.cli.app import commands
from strandline.cli.app.commands import list_summaries, program
from strandline.plan.stages.packs import InstalledPacks, Pack


def walk(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if not isinstance(command, click.Group):
        yield path, command.epilog or ""
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        if not inner.hidden:
            yield from walk(inner, (*path, name))


COMMANDS = dict(walk(program, ()))
EXAMPLES = [
    line.strip()
    for epilog in COMMANDS.values()
    for line in epilog.splitlines()
    if line.startswith("  ")
]


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_shows_an_example_of_the_command_itself(path: tuple[str, ...], call: Call) -> None:
    result = call(*path, "--help")
    assert result.exit_code == 0
    assert f"\n    strandline {' '.join(path)}" in result.stdout
    assert call(*path, "-h").stdout == result.stdout


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_works(example: str, project: Project, run: Call, call: Call) -> None:
    for volume in ("strandline-data", "data"):
        assert run("--volume", volume).exit_code == 0
    write_signatures(project.path / "signatures.parquet", {"a": "one two three four five"})
    write_signatures(project.path / "strandline-data/default/texts/latest/signatures.parquet", {})
    name, *words = shlex.split(example.replace("/data", str(project.path / "data")))
    if words[0] in {"run", "retry"}:
        words += ["--engine", "inline"]
    if words[0] == "doctor":
        words += ["--quick"]  # without Ray, which test_doctor_command starts
    if words[:2] == ["init", "data"]:
        (project.path / "data").mkdir(exist_ok=True)
        (project.path / "data/rows.csv").write_text("text\nx\n")
    if words[0] == "tune":
        project.spec["stages"].append({"use": "gopher-quality"})
        project.save()
    if words[0] == "similar":
        (project.path / "pipeline.yaml").rename(project.path / "vectors.yaml")
        (output,) = project.path.glob("strandline-data/default/*/output")
        rows = pa.table({"key": ["page-17", "page-18"], "vector": [[1.0, 0.0], [1.0, 0.5]]})
        pq.write_table(rows, output / "vectors.parquet")
    if words[:2] == ["ledger", "restore"]:
        assert call("ledger", "backup", "pipeline.yaml", "--to", "ledger.mdb").exit_code == 0
    result = call(*words)
    assert (name, result.exit_code, result.stderr.count("error")) == ("strandline", 0, 0)


def test_each_command_has_one_line_in_the_overview(call: Call) -> None:
    for words in ((), ("ledger",)):
        result = call(*words, "--help")
        listed = result.stdout.partition("Commands:\n")[2].splitlines()
        assert listed
        assert not [line for line in listed if line.endswith("...")]


@pytest.mark.parametrize(("name", "summary"), list_summaries().items())
def test_the_overview_quotes_the_help_of_a_command(name: str, summary: str) -> None:
    command = program.get_command(click.Context(program), name)
    assert command is not None
    assert command.get_short_help_str(1000) == summary


def test_the_overview_lists_each_visible_command(call: Call) -> None:
    shown = {name for name, *_ in COMMANDS}
    listed = call("--help").stdout.partition("Commands:\n")[2].splitlines()
    assert {line.split()[0] for line in listed} == shown == {*list_summaries()}


def test_the_overview_shows_a_command_of_a_pack_without_a_summary(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack = Pack(
        stages={}, commands={"own": "strandline.cli.commands.pipelines.version:show_version"}
    )
    monkeypatch.setattr(commands, "load_packs", lambda: InstalledPacks({"own": pack}))
    listed = [line.split() for line in call("--help").stdout.splitlines()]
    assert ["own", "Print", "the", "version."] in listed


def test_the_overview_loads_no_command(tmp_path: Path) -> None:
    look = (
        "import sys; from strandline.__main__ import main\n"
        "heavy = ('pydantic', 'yaml', 'pyarrow', 'fsspec', 'strandline.cli.commands')\n"
        "sys.argv = ['strandline', '--help']\n"
        "try: main()\n"
        "except SystemExit: print([name for name in heavy if name in sys.modules])"
    )
    # Start a new interpreter, because a fork of the command server has all modules loaded.
    shown = execute_interpreter(
        [sys.executable, "-c", look], cwd=tmp_path, capture_output=True, text=True
    ).stdout
    assert shown.splitlines()[-1] == "[]"


def test_a_missing_command_shows_the_help_and_exits_with_a_usage_error(
    call: Call,
) -> None:
    result = call()
    assert result.exit_code == 64
    assert "Usage: strandline [OPTIONS] COMMAND" in result.stderr


def test_custom_stages_are_found_in_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from strandline import Stage\n\n\nclass Mine(Stage):\n    '''Mine.'''\n\n"
        "    def process(self, task):\n        return task\n"
    )
    script = Path(sys.executable).with_name("strandline")
    for command in ([str(script)], [sys.executable, "-m", "strandline"]):
        result = execute_interpreter(
            [*command, "stages", "mine:Mine"], cwd=tmp_path, capture_output=True, text=True
        )
        assert result.stdout.startswith("mine:Mine (1→0|1|N, version 1)\n\nMine.\n")


def test_a_reader_that_closes_the_pipe_early_is_no_error(tmp_path: Path) -> None:
    line = f"{shlex.quote(sys.executable)} -m strandline stages --json; echo code $? >&2"
    result = subprocess.run(  # noqa: S602 - a pipe is the point
        f"( {line} ) | true", shell=True, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert result.stderr in {"code 141\n", "code 0\n"}
