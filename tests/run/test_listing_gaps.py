"""Parts of a listing that cannot be read are counted, and no source in them counts as removed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from pipeline_runs import Passes
from strandline.run.attempt.outcome import AttemptResult
from strandline_api.outcome.exit_codes import ExitCode

NAME = "letters"


@pytest.fixture
def passes(tmp_path: Path) -> Passes:
    """Create five letters in the listed folder and six in a folder that is linked from it."""
    for folder, names in {"in/near": "abcde", "far": "fghijk"}.items():
        (tmp_path / folder).mkdir(parents=True)
        for name in names:
            (tmp_path / folder / f"{name}.txt").write_text(name)
    (tmp_path / "in/far").symlink_to(tmp_path / "far")
    return Passes(tmp_path)


def copy(passes: Passes, *, follow: bool = True) -> AttemptResult:
    return passes.run(
        NAME,
        source={
            "use": "files",
            "with": {
                "paths": [f"{passes.folder}/in/**/*.txt"],
                "onRemoved": "Delete",
                "followSymlinks": follow,
            },
        },
        stages=[{"use": "read-files"}],
        sink={"use": "jsonl"},
    )


def count_passed_over(result: AttemptResult) -> dict[str, int]:
    counters = result.counts["files"].counters
    return {name: count for name, count in counters.items() if name.startswith("not looked at")}


def read_names(passes: Passes) -> str:
    keys = passes.read_rows(NAME, "key")
    assert max(keys.values()) == 1
    assert passes.find_problems(NAME) == []
    return "".join(sorted(Path(key).stem for key in keys))


def break_link(passes: Passes) -> str:
    (passes.folder / "far").rename(passes.folder / "elsewhere")
    return "a broken symbolic link"


def turn_link(passes: Passes) -> str:
    link = passes.folder / "in/far"
    link.unlink()
    link.symlink_to(link)
    return "a broken symbolic link"


@pytest.mark.parametrize("harm", [break_link, turn_link])
def test_a_link_that_breaks_deletes_nothing(passes: Passes, harm: object) -> None:
    assert copy(passes).standing.finished == 11
    assert callable(harm)
    what = harm(passes)
    (passes.folder / "in/near/a.txt").unlink()  # permanently removed
    second = copy(passes)
    assert second.code is ExitCode.COMPLETE
    assert count_passed_over(second) == {f"not looked at: {what}": 1}
    assert second.standing.removed == 1
    assert read_names(passes) == "bcdefghijk"
    assert any("removed sources keep" in name for name in second.counts["files"].counters)


def test_removed_sources_are_deleted_once_the_link_works_again(passes: Passes) -> None:
    copy(passes)
    break_link(passes)
    copy(passes)
    (passes.folder / "elsewhere/f.txt").unlink()
    (passes.folder / "elsewhere").rename(passes.folder / "far")
    assert copy(passes).standing.removed == 1
    assert read_names(passes) == "abcdeghijk"


def test_a_folder_that_moved_behind_a_link_keeps_its_output(passes: Passes) -> None:
    (passes.folder / "in/far").unlink()
    (passes.folder / "far").rename(passes.folder / "in/far")
    assert copy(passes, follow=False).standing.finished == 11
    shutil.move(passes.folder / "in/far", passes.folder / "far")
    (passes.folder / "in/far").symlink_to(passes.folder / "far")
    second = copy(passes, follow=False)
    assert count_passed_over(second) == {"not looked at: a folder behind a symbolic link": 1}
    assert read_names(passes) == "abcdefghijk"


@pytest.mark.parametrize("is_deep", [True, False])
def test_a_folder_that_may_not_be_read_keeps_its_output(
    passes: Passes, monkeypatch: pytest.MonkeyPatch, is_deep: bool
) -> None:
    (passes.folder / "in/near/deep").mkdir()
    (passes.folder / "in/near/deep/z.txt").write_text("z")
    copy(passes)
    (passes.folder / "in/far").unlink()
    scan = os.scandir

    def refuse(folder: str) -> object:
        if str(folder).endswith("near/deep" if is_deep else "near"):
            raise PermissionError(13, "Permission denied", folder)
        return scan(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    (passes.folder / "in/last.txt").write_text("last")
    second = copy(passes)
    assert second.code is ExitCode.COMPLETE
    assert second.standing.removed == 6  # the sources behind the link
    assert count_passed_over(second) == {"not looked at: a folder that can't be read": 1}
    assert passes.read_rows(NAME, "key").keys() >= {f"{passes.folder}/in/near/deep/z.txt"}
