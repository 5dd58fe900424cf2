"""Third-party packs are found by their entry points, and used like our own."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from strandline.cli.app.commands import program
from strandline.plan.packages import advise
from strandline.plan.stages.packs import load_own_packs, load_packs
from strandline.plan.stages.registry import (
    UnknownStageError,
    find_name,
    find_stage,
    list_registered,
    read_stages,
)

Install = Callable[..., None]
PACK = """
from strandline import Dependency, Pack, Stage

class CountEmoji(Stage):
    pass

def adapt(name):
    return type(name, (CountEmoji,), {})

PACK = Pack(
    stages={"count-emoji": "own_emoji:CountEmoji"},
    adapters={"smileys": "own_emoji:adapt"},
    packages=(Dependency(module="emo", name="pyemo", install="own-emoji[all]", needs="luck"),),
)
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that installs a module as a pack, given its name, text, and object."""

    def install(module: str, text: str, target: str = "PACK", entry: str = "") -> None:
        folder = tmp_path / module
        info = folder / f"{module}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(
            f"[strandline.packs]\n{entry or module} = {module}:{target}\n"
        )
        (folder / f"{module}.py").write_text(text)
        monkeypatch.delitem(sys.modules, module, raising=False)
        monkeypatch.syspath_prepend(folder)

    return install


def test_our_packs_are_entry_points_too() -> None:
    assert {"text", "web", "tables"} <= {*load_own_packs()}
    assert {*load_own_packs()} <= {*load_packs().packs}


def test_a_stage_of_a_pack_is_found_and_named(install: Install) -> None:
    install("own_emoji", PACK)
    found = find_stage("count-emoji")
    assert found.__name__ == "CountEmoji"
    assert find_name(found) == "count-emoji"
    assert list_registered()["count-emoji"] is found
    assert advise("emo.faces") == "pip install 'own-emoji[all]', which needs luck"


def test_an_adapter_of_a_pack_makes_stages(install: Install) -> None:
    with pytest.raises(UnknownStageError, match="'smileys' can't be imported"):
        find_stage("smileys:Wink")
    install("own_emoji", PACK)
    assert find_stage("smileys:Wink").__name__ == "Wink"


def test_an_unknown_name_may_belong_to_a_pack(install: Install) -> None:
    install("own_emoji", PACK)
    with pytest.raises(UnknownStageError, match="did you mean 'count-emoji'"):
        find_stage("count-emojis")


@pytest.mark.parametrize(
    ("text", "target", "sentence"),
    [
        ("import nowhere\n", "PACK", "can't be loaded: No module named 'nowhere'"),
        ("def broken(:\n", "PACK", "can't be loaded: invalid syntax"),
        ("PACK = {}\n", "PACK", "own_broken:PACK is not a strandline.Pack"),
        ("PACK = {}\n", "PACKS", "can't be loaded: module 'own_broken' has no attribute 'PACKS'"),
    ],
)
def test_a_broken_pack_is_named_and_leaves_the_others(
    install: Install, text: str, target: str, sentence: str
) -> None:
    install("own_emoji", PACK)
    install("own_broken", text, target)
    (problem,) = load_packs().problems
    assert problem.startswith("the pack 'own_broken'")
    assert sentence in problem
    assert find_stage("count-emoji").__name__ == "CountEmoji"
    with pytest.raises(UnknownStageError) as unknown:
        find_stage("xyzzy")
    assert problem in str(unknown.value)
    assert problem in read_stages()[1]


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("own_emoji:Nothing", "'count-emoji': own_emoji:Nothing can't be loaded"),
        ("own_emoji:adapt", "'count-emoji': own_emoji:adapt is not a stage class; derive it from"),
        ("own_emoji.CountEmoji", "can't be loaded (write module:name, with a colon)"),
        ("nowhere:Stage", "'count-emoji': nowhere:Stage can't be loaded"),
    ],
)
def test_an_entry_point_of_a_pack_without_a_stage_is_reported(
    install: Install, target: str, sentence: str
) -> None:
    install("own_emoji", PACK.replace("own_emoji:CountEmoji", target))
    with pytest.raises(UnknownStageError, match=re.escape(sentence)):
        find_stage("count-emoji")
    stages, problems = read_stages()
    assert "count-emoji" not in stages
    assert "parquet" in stages
    assert any(sentence in problem for problem in problems)


def test_a_name_of_ours_stays_ours(install: Install) -> None:
    install("own_emoji", PACK.replace('"count-emoji"', '"parquet"'))
    assert find_stage("parquet").__name__ == "ParquetSink"
    stages, problems = read_stages()
    assert stages["parquet"].__name__ == "ParquetSink"
    assert problems == [
        "two stages are registered as 'parquet'; own_emoji:CountEmoji of a pack is ignored in "
        "favour of strandline_packs.sinks.parquet_partitions:ParquetSink"
    ]


@pytest.mark.parametrize(("entry", "owner"), [("text", "Strandline"), ("smileys", "another")])
def test_a_pack_with_a_taken_name_is_reported(install: Install, entry: str, owner: str) -> None:
    install("own_first", PACK.replace("own_emoji", "own_first"), entry="smileys")
    install("own_second", PACK.replace("count-emoji", "count-others"), entry=entry)
    (problem,) = load_packs().problems
    assert f"is ignored: {owner}" in problem
    assert problem.endswith("choose another name for its entry point")
    with pytest.raises(UnknownStageError) as unknown:
        find_stage("count-others")
    assert problem in str(unknown.value)


def test_a_name_in_two_packs_is_rejected(install: Install) -> None:
    install("own_first", PACK.replace("own_emoji", "own_first"))
    install("own_second", PACK.replace("own_emoji", "own_second"))
    with pytest.raises(UnknownStageError, match=r"'own_first' .* and 'own_second' .* remove one"):
        find_stage("count-emoji")


def test_a_broken_command_of_a_pack_leaves_the_overview(install: Install) -> None:
    pack = PACK.replace("stages={", 'commands={"smile": "own_emoji:nothing"}, stages={')
    install("own_emoji", pack)
    shown = CliRunner().invoke(program, ["--help"])
    assert (shown.exit_code, "smile" in shown.output) == (0, True)
    called = CliRunner().invoke(program, ["smile"])
    assert called.exit_code != 0
    assert "the command 'smile' of a pack can't be loaded (own_emoji:nothing)" in called.output
