"""Packages are installed beside the image's packages, and replace none of them.

The configured source is used.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import fsspec
import pydantic
import pytest

from strandline.plan.errors import code_of
from strandline.run.code.packages import (
    PackageError,
    PackageSources,
    find_absent,
    format_command,
    install_packages,
)
from strandline.storage.downloads import NothingThereError, UnreachableError
from strandline_api.outcome.exit_codes import ExitCode
from wheel_builders import write_wheel


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """Create wheels. `tidal` needs `moonlike` and pydantic, which is installed."""
    folder = tmp_path / "wheels"
    write_wheel(folder, "moonlike", "2.0", {"moonlike.py": "PHASE = 'full'\n"})
    needs = ["moonlike>=1", "pydantic"]
    tidal = {"tidal/__init__.py": "import moonlike\n\nLEVEL = 3\n"}
    write_wheel(folder, "tidal", "1.0", tidal, needs)
    return folder


def install(tmp_path: Path, packages: list[str], **sources: str) -> list[str]:
    """Install packages and return pip's output."""
    said: list[str] = []
    install_packages(
        packages, PackageSources(**sources), tmp_path / "fetched/packages", said.append
    )
    return said


def test_packages_are_installed_with_requirements_that_the_image_lacks(
    tmp_path: Path, wheels: Path
) -> None:
    said = install(tmp_path, ["tidal==1.0"], wheels=str(wheels))
    folder = tmp_path / "fetched/packages"
    tops = {path.name for path in folder.iterdir()} - {"__pycache__"}
    assert tops == {"moonlike.py", "moonlike-2.0.dist-info", "tidal", "tidal-1.0.dist-info"}
    assert [path.name for path in folder.parent.iterdir()] == ["packages"]
    program = "import tidal, moonlike; print(tidal.LEVEL, moonlike.__file__)"
    run = [sys.executable, "-c", program]
    printed = subprocess.check_output(run, env={"PYTHONPATH": str(folder)}, text=True)
    assert printed.split() == ["3", str(folder / "moonlike.py")]
    assert any("Successfully installed" in line for line in said)


def test_leftovers_of_an_earlier_try_are_replaced(tmp_path: Path, wheels: Path) -> None:
    leftover = tmp_path / "fetched/packages/leftover.py"
    leftover.parent.mkdir(parents=True)
    leftover.touch()
    install(tmp_path, ["moonlike==2.0"], wheels=str(wheels))
    assert not leftover.exists()
    assert (leftover.parent / "moonlike.py").exists()


def test_wheels_of_an_object_store_are_copied_first(tmp_path: Path, wheels: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.put(str(wheels), "/packages/wheels", recursive=True)
    install(tmp_path, ["moonlike==2.0"], wheels="memory://packages/wheels")
    assert (tmp_path / "fetched/packages/moonlike.py").exists()
    memory.pipe_file("/packages/empty/notes.txt", b"")
    with pytest.raises(PackageError, match=r"empty: no file ends in \.whl"):
        install(tmp_path, ["moonlike==2.0"], wheels="memory://packages/empty")
    with pytest.raises(NothingThereError, match="memory://packages/none"):
        install(tmp_path, ["moonlike==2.0"], wheels="memory://packages/none")


def test_an_unknown_package_is_reported_with_the_available_versions(
    tmp_path: Path, wheels: Path
) -> None:
    with pytest.raises(PackageError) as told:
        install(tmp_path, ["moonlike==3.0"], wheels=str(wheels))
    assert "pip can't install moonlike==3.0: " in str(told.value)
    assert "(from versions: 2.0)" in str(told.value)
    assert code_of(told.value) is ExitCode.BAD_SPEC


def test_packages_of_the_image_are_not_replaced(tmp_path: Path, wheels: Path) -> None:
    write_wheel(wheels, "pydantic", "0.1", {"pydantic.py": ""})
    with pytest.raises(PackageError) as told:
        install(tmp_path, ["pydantic==0.1"], wheels=str(wheels))
    assert f"the image has pydantic {pydantic.VERSION}, which can't be replaced" in str(told.value)
    write_wheel(wheels, "greedy", "1.0", {"greedy.py": ""}, ["pydantic==0.1"])
    with pytest.raises(PackageError) as told:
        install(tmp_path, ["greedy==1.0"], wheels=str(wheels))
    assert "greedy 1.0 depends on pydantic==0.1" in str(told.value)
    assert not (tmp_path / "fetched/packages/pydantic.py").exists()


class _Failing(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(503)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def index() -> Iterator[str]:
    """Serve a package index that always fails."""
    with HTTPServer(("127.0.0.1", 0), _Failing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/simple"
        server.shutdown()


def test_a_failing_index_is_a_transient_error(
    tmp_path: Path, index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(UnreachableError, match="pip can't install moonlike") as told:
        install(tmp_path, ["moonlike==2.0"], index=index)
    assert "too many 503 error responses" in str(told.value)
    assert code_of(told.value) is ExitCode.APPLICATION_ERROR


def test_an_image_without_pip_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> None:
        assert name == "pip"

    monkeypatch.setattr(importlib.util, "find_spec", find)
    with pytest.raises(PackageError, match="this image has no pip"):
        install(tmp_path, ["moonlike==2.0"], wheels=str(tmp_path))


@pytest.mark.parametrize(
    ("found", "wanted", "is_here"),
    [
        ("1.0", "1.0", True),
        ("1.0", "1.0.0", True),
        ("1.10", "1.1", False),
        ("1.0+cpu", "1.0", True),
        ("1.0+cpu", "1.0+cpu", True),
        ("1.0", "1.0+cpu", False),
        ("1.0RC1", "1.0rc1", True),
        ("10", "1", False),
    ],
)
def test_different_spellings_of_a_version_are_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: str, wanted: str, is_here: bool
) -> None:
    about = tmp_path / "moonlike.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: Moonlike\nVersion: {found}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    package = f"moonlike[x]=={wanted}"
    assert find_absent([package]) == ({} if is_here else {package: found})


def test_the_suggested_command_names_the_sources() -> None:
    assert find_absent(["nowhere-to-be-found==1"]) == {"nowhere-to-be-found==1": None}
    assert format_command(["a==1", "b[x]==2"], PackageSources()) == "pip install a==1 'b[x]==2'"
    only = format_command(["a==1"], PackageSources(wheels="/mnt/my wheels"))
    assert only == "pip install -f '/mnt/my wheels' --no-index a==1"
    both = format_command(["a==1"], PackageSources("https://example.com/simple", "/mnt"))
    assert both == "pip install -i https://example.com/simple -f /mnt a==1"
