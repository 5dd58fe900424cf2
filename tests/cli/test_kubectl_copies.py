"""`kubectl strandline cp` copies files unchanged, or fails."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from cli_project import Call
from fake_kubectl import JOB, FakeKubectl

RUNNING = {
    "metadata": {"name": JOB},
    "status": {"containerStatuses": [{"name": "strandline", "state": {"running": {}}}]},
}


def pack(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def pack_links() -> bytes:
    """Pack a file, a hard link, and a symbolic link to the file."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo("./a")
        entry.size = 1
        archive.addfile(entry, io.BytesIO(b"a"))
        for name, kind, target in (("b", tarfile.LNKTYPE, "./a"), ("c", tarfile.SYMTYPE, "a")):
            entry = tarfile.TarInfo(f"./{name}")
            entry.type, entry.linkname = kind, target
            archive.addfile(entry)
    return packed.getvalue()


def test_links_are_copied_and_counted(kubectl: FakeKubectl, ask: Call, tmp_path: Path) -> None:
    kubectl.answer("get pods|job-name", {"items": [RUNNING]})
    kubectl.answer("exec", pack_links())
    result = ask("cp", "corpus:output", "clean")
    assert (result.exit_code, result.stderr) == (0, "clean: 3 files copied\n")
    assert [(tmp_path / "clean" / name).read_bytes() for name in "abc"] == [b"a"] * 3


def test_files_are_copied_unchanged(kubectl: FakeKubectl, ask: Call, tmp_path: Path) -> None:
    kubectl.answer("get pods|job-name", {"items": [RUNNING]})
    kubectl.answer("exec", pack({"./a.jsonl": b"\0\r\n", "./below/b": b"b"}))
    result = ask("cp", "corpus:output", "clean")
    assert (result.exit_code, result.stderr) == (0, "clean: 2 files copied\n")
    assert (tmp_path / "clean/a.jsonl").read_bytes() == b"\0\r\n"
    assert (tmp_path / "clean/below/b").read_bytes() == b"b"
    (call,) = (call for call in kubectl.calls if call[0] == "exec")
    assert call[-1] == "/var/lib/strandline/team/corpus/output"
    assert kubectl.list_verbs() == ["create", "exec", "delete"]


@pytest.mark.parametrize(
    ("packed", "code", "told"),
    [
        (pack({"a": b"a" * 4096})[:1024], 0, "could not be copied completely"),
        (pack({"a": b"a"}), 2, "could not be copied completely"),
        (pack({"../a": b"a"}), 0, "nothing more was copied"),
    ],
)
def test_a_broken_copy_fails(
    kubectl: FakeKubectl, ask: Call, tmp_path: Path, packed: bytes, code: int, told: str
) -> None:
    kubectl.answer("get pods|job-name", {"items": [RUNNING]})
    kubectl.answer("exec", packed, code=code)
    result = ask("cp", "corpus:latest", "here")
    assert (result.exit_code, told in result.stderr) == (1, True)
    assert not (tmp_path / "a").exists()
    assert kubectl.list_verbs()[-1] == "delete"


def test_an_unsafe_python_version_copies_nothing(
    kubectl: FakeKubectl, ask: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Early releases of Python 3.11 do not reject archive members with paths outside the folder."""
    monkeypatch.delattr("tarfile.data_filter")
    result = ask("cp", "corpus:output", "clean")
    assert result.exit_code == 64
    assert "cp needs Python 3.11.4 or newer" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert kubectl.list_verbs() == []
