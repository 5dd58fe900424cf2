"""Code that a pipeline provides is importable, fingerprinted, and reported if missing."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from archive_builders import write_zip
from strandline.run.code.code import bring_code, digest_files, fetch_code, find_cache
from strandline.storage.downloads import UnreachableError
from strandline_api.documents.problems import SpecError
from strandline_api.spec.code import Code
from wheel_builders import write_wheel

ABSENT = "nowhere-to-be-found==1.0"


def refuse(code: Code, environment: dict[str, str]) -> list[str]:
    """Return the problems that are reported for unavailable code."""
    with pytest.raises(SpecError) as told:
        bring_code(code, environment, [])
    return [str(problem) for problem in told.value.problems]


def make_archive(tmp_path: Path, **more: Any) -> dict[str, Any]:
    files = {"code-1/src/mystages.py": b"MIN = 5\n", "code-1/README": b""}
    digest = write_zip(tmp_path / "code.zip", files)
    return {"url": str(tmp_path / "code.zip"), "sha256": digest, **more}


def make_pod(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """Create files as a pod mounts a ConfigMap, with links and a hidden folder."""
    root = tmp_path / "pod"
    data = root / "files/..2026"
    data.mkdir(parents=True)
    (root / "files/..data").symlink_to("..2026")
    (data / "mystages.py").write_text("MIN = 5\n")
    (root / "files/mystages.py").symlink_to("..data/mystages.py")
    return root, {"STRANDLINE_CODE": str(root)}


def test_without_code_nothing_changes() -> None:
    environment: dict[str, str] = {}
    path = ["/a"]
    brought = bring_code(Code(), environment, path)
    assert (brought.parts, brought.hint) == ({}, "")
    assert (environment, path) == ({}, ["/a"])


def test_an_archive_is_fetched_once_and_imported_by_this_process_and_its_children(
    tmp_path: Path,
) -> None:
    archive = make_archive(tmp_path, path="code-1/src")
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": "/mine"}
    code = Code.model_validate({"archive": archive})
    path = ["/a"]
    for _ in range(2):
        brought = bring_code(code, environment, path)
        root = find_cache(environment) / archive["sha256"] / "code-1/src"
        assert path == [str(root), "/a"]
        assert environment["PYTHONPATH"] == os.pathsep.join([str(root), "/mine"])
        assert (root / "mystages.py").read_text() == "MIN = 5\n"
        assert brought.parts == {
            "code.archive": archive["sha256"],
            "code.archive.path": "code-1/src",
        }
        assert brought.hint == "the code in `code` contains: mystages"
        (tmp_path / "code.zip").unlink(missing_ok=True)


def test_an_invalid_archive_is_a_problem_of_the_spec(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    archive = make_archive(tmp_path)
    other = Code.model_validate({"archive": archive | {"sha256": "0" * 64}})
    (said,) = refuse(other, environment)
    assert said.startswith(f"spec.code.archive: the archive at {archive['url']} has the digest ")
    (said,) = refuse(Code.model_validate({"archive": archive | {"path": "src"}}), environment)
    assert said == (
        "spec.code.archive.path: the archive has no folder 'src'; its top level contains: code-1"
    )
    gone = archive | {"url": str(tmp_path / "gone.zip"), "sha256": "1" * 64}
    (said,) = refuse(Code.model_validate({"archive": gone}), environment)
    assert said == f"spec.code.archive: {tmp_path}/gone.zip: the file does not exist"


def test_a_transient_download_failure_is_no_problem_of_the_spec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strandline.storage.downloads.PAUSES", ())
    archive = {"url": "http://127.0.0.1:9/code.zip", "sha256": "0" * 64}
    with pytest.raises(UnreachableError):
        bring_code(Code.model_validate({"archive": archive}), {"XDG_CACHE_HOME": str(tmp_path)}, [])


def test_missing_packages_are_reported_with_the_install_command() -> None:
    here = f"pydantic=={sys.modules['pydantic'].VERSION}"
    code = Code(packages=(here, ABSENT, "pyyaml==0.1"), wheels="/mnt/wheels")
    first, second = refuse(code, {})
    command = f"run: pip install -f /mnt/wheels --no-index {ABSENT} pyyaml==0.1"
    assert first == (
        "spec.code.packages[1]: nowhere-to-be-found 1.0 is not installed on this machine; "
        f"{command}"
    )
    assert second.startswith("spec.code.packages[2]: pyyaml is ")
    assert "on this machine, not 0.1; run: " in second
    brought = bring_code(Code(packages=(here,)), {}, [])
    assert brought.parts == {"code.packages": [here]}


def test_a_laptop_expects_the_files_of_a_configmap_in_its_folder() -> None:
    path: list[str] = []
    brought = bring_code(Code(config_map="mystages"), {}, path)
    assert (brought.parts, path) == ({}, [])
    assert "start the run in the folder with the files of ConfigMap 'mystages'" in brought.hint


def test_in_a_pod_mounted_files_are_digested(tmp_path: Path) -> None:
    root, environment = make_pod(tmp_path)
    archive = {"url": "s3://bucket/gone.zip", "sha256": "0" * 64}
    (root / "fetched/archive/lib").mkdir(parents=True)
    (root / "fetched/archive/lib-1.dist-info").mkdir()
    code = Code.model_validate({"configMap": "mystages", "archive": archive})
    path: list[str] = []
    brought = bring_code(code, environment, path)
    assert path == []
    assert environment == {"STRANDLINE_CODE": str(root)}
    digest = digest_files(root / "files")
    assert brought.parts == {"code.files": digest, "code.archive": "0" * 64}
    assert brought.hint == "the code in `code` contains: lib, mystages"


def test_the_digest_covers_names_and_contents(tmp_path: Path) -> None:
    root, _ = make_pod(tmp_path)
    before = digest_files(root / "files")
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "mystages.py").write_text("MIN = 5\n")
    assert digest_files(plain) == before
    (plain / "mystages.py").write_text("MIN = 8\n")
    assert digest_files(plain) != before
    (plain / "mystages.py").rename(plain / "other.py")
    (plain / "other.py").write_text("MIN = 5\n")
    assert digest_files(plain) != before
    (plain / "other.py").write_text("")
    (plain / "x").write_text("other.py")
    one = digest_files(plain)
    (plain / "x").write_text("")
    (plain / "xother.py").write_text("")
    assert digest_files(plain) != one


def test_a_pod_imports_the_archive_it_fetched(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    write_wheel(wheels, "moonlike", "2.0", {"moonlike.py": "PHASE = 'full'\n"})
    wanted = {
        "archive": make_archive(tmp_path, path="code-1/src"),
        "packages": ["moonlike==2.0"],
        "wheels": str(wheels),
    }
    folder = tmp_path / "fetched"
    for _ in range(2):  # an init container may run twice
        fetch_code(Code.model_validate(wanted), folder, lambda _: None)
        assert (folder / "archive/code-1/src/mystages.py").exists()
        assert (folder / "packages/moonlike.py").exists()
    with pytest.raises(SpecError, match=r"^spec.code.packages: pip can't install moonlike==3.0: "):
        fetch_code(
            Code.model_validate(wanted | {"packages": ["moonlike==3.0"]}), folder, lambda _: None
        )
