"""Listed files, and their keys and versions."""

import errno
import os
from pathlib import Path
from typing import Any

import fsspec
import pytest

from stage_runs import StageRun, Tree
from strandline.data.files.buckets import build_file_table


def test_globs_and_excludes(run: type[StageRun], tree: Tree) -> None:
    root = tree("a.py", "b/c.py", "b/skip/d.py", "b/e.txt", ".hidden/f.py", "b/.g.py")
    files = run("files", paths=[f"{root}/**/*.py"], exclude=["**/skip/**"])
    assert {f"{root}/a.py", f"{root}/b/c.py"} == files.keys()


def test_a_file_reached_twice_is_listed_once(run: type[StageRun], tree: Tree) -> None:
    root = tree("b/c.py", "b/d.py", "e.py")
    files = run("files", paths=[f"{root}/b/*.py", f"{root}/**/*.py", f"{root}/./e.py"])
    assert sorted([f"{root}/b/c.py", f"{root}/b/d.py", f"{root}/e.py"]) == sorted(
        source.key for source in files.sources()
    )


def test_a_file_excluded_by_an_earlier_pattern_is_left_to_later_patterns(
    run: type[StageRun], tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree("lib/site/a.py", "lib/b.py")
    monkeypatch.chdir(root)
    files = run("files", paths=["lib/**/*.py", "./lib/site/*.py"], exclude=["lib/site/**"])
    assert {"lib/b.py", "./lib/site/a.py"} == files.keys()


def test_keys_are_spelled_like_the_pattern(
    run: type[StageRun], tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tree("docs/a.txt"))
    (source,) = run("files", paths=["docs/*.txt"]).sources()
    assert "docs/a.txt" == source.key
    assert str(Path.cwd() / "docs/a.txt") == source.data["path"][0].as_py()
    assert build_file_table([]).schema == source.data.schema


def test_placeholders_stay_in_keys(run: type[StageRun]) -> None:
    (source,) = run("files", paths=["{stdlib}/json/__init__.py"]).sources()
    assert "{stdlib}/json/__init__.py" == source.key
    assert os.path.isfile(source.data["path"][0].as_py())


def test_the_version_by_stat_follows_size_and_time(run: type[StageRun], tree: Tree) -> None:
    path = tree("a.txt") / "a.txt"
    files = run("files", paths=[str(path)])
    (before,) = files.sources()
    assert f"5+{path.stat().st_mtime_ns}" == before.version
    os.utime(path, ns=(1, 1))
    (after,) = files.sources()
    assert "5+1" == after.version


def test_the_version_by_content_ignores_time(run: type[StageRun], tree: Tree) -> None:
    path = tree("a.txt") / "a.txt"
    files = run("files", paths=[str(path)], version="content")
    (before,) = files.sources()
    os.utime(path, ns=(1, 1))
    assert files.sources()[0].version == before.version
    path.write_bytes(b"other")
    assert files.sources()[0].version != before.version


def test_a_limit_selects_the_same_files_in_any_order(run: type[StageRun], tree: Tree) -> None:
    names = [f"{index}.txt" for index in range(20)]
    root = tree(*names)
    chosen = run("files", paths=[f"{root}/*.txt"], limit=5).keys()
    one_by_one = run("files", paths=[f"{root}/{name}" for name in reversed(names)], limit=5)
    assert 5 == len(chosen)
    assert chosen == one_by_one.keys()


def test_large_files_are_skipped_and_counted(run: type[StageRun], tree: Tree) -> None:
    root = tree("a", "long-name")
    files = run("files", paths=[f"{root}/*"], maxFileBytes=3)
    assert {f"{root}/a"} == files.keys()
    assert {"left out: larger than maxFileBytes": 1} == files.counters


def test_a_name_that_is_not_utf8_is_skipped_and_counted(run: type[StageRun], tree: Tree) -> None:
    root = tree("a.txt")
    with open(os.fsencode(root) + b"/\xff.txt", "wb"):
        pass
    files = run("files", paths=[f"{root}/*.txt"])
    assert {f"{root}/a.txt"} == files.keys()
    assert {"left out: file name is not UTF-8": 1} == files.counters


def test_links_to_files_are_listed_and_to_folders_only_on_request(
    run: type[StageRun], tree: Tree
) -> None:
    root = tree("b/a.txt")
    (root / "link.txt").symlink_to(root / "b/a.txt")
    (root / "b/loop").symlink_to(root)
    (root / "broken.txt").symlink_to(root / "gone")
    plain = {f"{root}/b/a.txt", f"{root}/link.txt"}
    assert plain == run("files", paths=[f"{root}/**/*.txt"]).keys()
    assert plain == run("files", paths=[f"{root}/**/*.txt"], followSymlinks=True).keys()
    (root / "other").symlink_to(root / "b")
    followed = run("files", paths=[f"{root}/**/*.txt"], followSymlinks=True).keys()
    assert plain | {f"{root}/other/a.txt"} == followed


def test_only_folders_that_can_match_are_read(
    run: type[StageRun], tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree("x.dist-info/METADATA", "package/deep/METADATA", "package/b.py")
    read: list[str] = []
    scan = os.scandir

    def watch(folder: str) -> object:
        read.append(folder)
        return scan(folder)

    monkeypatch.setattr(os, "scandir", watch)
    assert {f"{root}/x.dist-info/METADATA"} == run(
        "files", paths=[f"{root}/*.dist-info/METADATA"]
    ).keys()
    assert [str(root), f"{root}/x.dist-info"] == read


def test_missing_places_are_named(run: type[StageRun], tree: Tree) -> None:
    root = tree("b/a.txt")
    with pytest.raises(FileNotFoundError, match="gone/' of the pattern does not exist"):
        run("files", paths=[f"{root}/gone/*.txt"]).sources()
    with pytest.raises(FileNotFoundError, match=r"the file '.*gone.txt' does not exist"):
        run("files", paths=[f"{root}/gone.txt"]).sources()
    with pytest.raises(IsADirectoryError, match=r"b' is a folder; write '.*b/\*\*'"):
        run("files", paths=[f"{root}/b"]).sources()


def refuse(monkeypatch: pytest.MonkeyPatch, end: str, number: int) -> None:
    """Make reading of folders with this suffix fail with an error."""
    scan = os.scandir

    def look(folder: str) -> object:
        if str(folder).endswith(end):
            raise OSError(number, "no answer", folder)
        return scan(folder)

    monkeypatch.setattr(os, "scandir", look)


@pytest.mark.parametrize(("end", "number"), [("tree", errno.EACCES), ("b", errno.EIO)])
def test_an_unreachable_place_is_named(
    run: type[StageRun],
    tree: Tree,
    monkeypatch: pytest.MonkeyPatch,
    end: str,
    number: int,
) -> None:
    root = tree("tree/b/a.txt") / "tree"
    refuse(monkeypatch, end, number)
    with pytest.raises(OSError, match=rf"^the folder '.*{end}' can't be read: no answer$"):
        run("files", paths=[f"{root}/**/*.txt"]).sources()


def test_an_unreadable_folder_is_counted_as_a_gap(
    run: type[StageRun], tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree("a.txt", "b/c.txt", "d/e.txt", ".b/f.txt")
    refuse(monkeypatch, "b", errno.EACCES)
    files = run("files", paths=[f"{root}/**/*.txt"])
    assert {f"{root}/a.txt", f"{root}/d/e.txt"} == files.keys()
    assert {"not looked at: a folder that can't be read": 1} == files.counters
    assert (f"{root}/b",) == files.stage.gap_paths


def test_links_that_were_not_followed_are_counted_as_gaps(run: type[StageRun], tree: Tree) -> None:
    root = tree("a.txt", "b/c.txt", "out/d.txt")
    for name, target in {
        "folder": "out",
        "file.txt": "out/d.txt",
        "dead": "gone",
        "dead.txt": "gone",
        "circle": "circle",
        ".#lock.txt": "gone",
        "b/dead.md": "gone",
    }.items():
        (root / name).symlink_to(root / target)
    files = run("files", paths=[f"{root}/**/*.txt"], exclude=["**/out/**"])
    assert {f"{root}/{name}" for name in ("a.txt", "b/c.txt", "file.txt")} == files.keys()
    dead, behind = (
        "not looked at: a broken symbolic link",
        "not looked at: a folder behind a symbolic link",
    )
    assert {dead: 4, behind: 1} == files.counters
    gaps = {f"{root}/{name}" for name in ("folder", "dead", "dead.txt", "circle", "b/dead.md")}
    assert gaps == set(files.stage.gap_paths)
    followed = run("files", paths=[f"{root}/**/*.txt"], followSymlinks=True)
    assert {f"{root}/folder/d.txt"} < followed.keys()
    assert {dead: 4} == followed.counters
    flat = run("files", paths=[f"{root}/*.txt"])
    assert {f"{root}/a.txt", f"{root}/file.txt"} == flat.keys()
    assert {dead: 1} == flat.counters
    left_out = run("files", paths=[f"{root}/*.txt"], exclude=["**/dead*"])
    left_out.sources()
    assert {} == left_out.counters


def test_buckets_have_gaps_without_a_path(run: type[StageRun], tree: Tree) -> None:
    root = tree("a.txt")
    (root / "dead.txt").symlink_to(root / "gone")
    files = run("files", paths=[f"{root}/*.txt"], buckets=2)
    assert 1 == len(files.sources())
    assert ("",) == files.stage.gap_paths


def test_a_pipe_is_counted(run: type[StageRun], tree: Tree) -> None:
    root = tree("a.txt")
    os.mkfifo(root / "b.txt")
    files = run("files", paths=[f"{root}/*.txt"])
    assert {f"{root}/a.txt"} == files.keys()
    assert {"left out: neither a file nor a folder": 1} == files.counters


def test_a_pattern_without_files_is_counted_and_lists_nothing(
    run: type[StageRun], tree: Tree
) -> None:
    root = tree("a.txt")
    files = run("files", paths=[f"{root}/*.md"])
    assert [] == files.sources()
    assert {f"no file matches {root}/*.md": 1} == files.counters


def test_unread_places_are_gaps(
    run: type[StageRun], tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree("a.txt", "b/c.txt", "d/e.txt")
    whole = run("files", paths=[f"{root}/**/*.txt"])
    assert 3 == len(whole.sources())
    assert whole.gap is None
    assert "limit is 3" == run("files", paths=[f"{root}/**/*.txt"], limit=3).gap
    empty = run("files", paths=[f"{root}/*.txt", f"{root}/*.md"])
    empty.sources()
    assert f"no file matches {root}/*.md" == empty.gap

    scan = os.scandir

    def lose(folder: str) -> object:
        if str(folder).endswith("b"):
            raise FileNotFoundError(2, "No such file or directory", folder)
        return scan(folder)

    monkeypatch.setattr(os, "scandir", lose)
    files = run("files", paths=[f"{root}/**/*.txt"])
    assert 2 == len(files.sources())
    assert files.gap == f"the folder '{root}/b' disappeared while it was listed"


def test_urls_are_listed_through_fsspec(run: type[StageRun]) -> None:
    store = fsspec.filesystem("memory")
    for name in ("/shelf/a.txt", "/shelf/deep/b.txt", "/shelf/skip/c.txt", "/shelf/d.md"):
        store.pipe_file(name, name.encode())
    files = run("files", paths=["memory://shelf/**/*.txt"], exclude=["**/skip/**"])
    assert {"memory://shelf/a.txt", "memory://shelf/deep/b.txt"} == files.keys()
    (plain,) = run("files", paths=["memory://shelf/d.md"]).sources()
    assert "memory://shelf/d.md" == plain.key
    assert plain.version.startswith("11+")
    rows = run("read-files").rows(plain.data)
    assert [b"/shelf/d.md"] == [row["content"] for row in rows]
    with pytest.raises(FileNotFoundError, match="the file or folder does not exist"):
        run("files", paths=["memory://shelf/gone.md"]).sources()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"paths": []}, "at least 1 item"),
        ({"paths": ["{nowhere}/x"]}, "unknown placeholder"),
        ({"paths": ["x"], "buckets": 0}, "greater than or equal to 1"),
        ({"paths": ["x"], "version": "mtime"}, "'stat' or 'content'"),
        ({"paths": ["x"], "bukkets": 3}, "Extra inputs"),
    ],
)
def test_bad_parameters_are_refused(
    run: type[StageRun], values: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        run("files", **values)
