"""Finds installed packages, and installs missing packages next to the packages of a pod's image.

pip does the work, in a process of its own. Packages of the image are never replaced, because the
driver and all workers depend on them. This module must not depend on pipelines.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

from strandline.plan.errors import StrandlineError
from strandline.storage.downloads import UnreachableError, copy_matching
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.spec.code import split_package

WHEEL = ".whl"
_MOST_WORDS = 600  # maximum number of characters from pip's messages
# Phrases in pip's log for failures of the index or the network, which a later try may not meet.
_PASSING = re.compile(
    r"WARNING: Retrying \(|too many (5\d\d|429) error|: 5\d\d Server Error|HTTP error (5\d\d|429)"
)
# Lines about failed requests to an index, except for status 404: pip itself reports names that an
# index does not have.
_UNFETCHED = re.compile(r"Could not fetch URL (?P<said>(?!.*: 404 ).+) - skipping$")
_ERROR = re.compile(r"^ERROR: (?P<said>.+)$")
_REQUIREMENT = re.compile(r"^    (?P<said>.* (depends on|requested) .*)$")
# The time stamp at the start of each log line.
_STAMP = re.compile(r"^\S+T\S+ ")
# Locations that pip can read. Wheels at other locations are copied first.
_OF_PIP = re.compile(r"(https?|file)://|/")


class PackageError(StrandlineError):
    """Raised if packages can't be installed as requested."""

    exit_code = ExitCode.BAD_SPEC


@dataclass(frozen=True, slots=True)
class PackageSources:
    """Locations of packages. None means that a location is not given.

    Attributes:
        index: URL of an index. If neither an index nor wheels are given, pip uses its own
            configuration.
        wheels: a folder of wheels, a page with links to wheels, or a URL for fsspec.
    """

    index: str | None = None
    wheels: str | None = None

    def list_options(self) -> list[str]:
        """Return the command-line options for pip."""
        words = [] if self.index is None else ["-i", self.index]
        if self.wheels is not None:
            words += ["-f", self.wheels]
            words += ["--no-index"] if self.index is None else []
        return words


def find_absent(packages: Sequence[str]) -> dict[str, str | None]:
    """Return the packages that are missing in the requested version, with the installed version."""
    return {
        package: found
        for package in packages
        if not _is_same(found := _find_version(split_package(package)[0]), package)
    }


def format_command(packages: Sequence[str], sources: PackageSources) -> str:
    """Return the command that installs the packages on this machine."""
    return shlex.join(["pip", "install", *sources.list_options(), *packages])


def install_packages(
    packages: Sequence[str], sources: PackageSources, folder: Path, report: Callable[[str], None]
) -> None:
    """Install packages and their missing dependencies into a folder for imports.

    If an earlier try has left files in the folder, they are replaced.

    Args:
        report: receives the lines that pip prints.

    Raises:
        PackageError: if a package can't be found or conflicts with the image, or pip is missing.
        UnreachableError: if the packages can't be fetched now.
    """
    _check(packages)
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".pip-") as aside:
        held = Path(aside) / "wheels"
        sources = _bring_near(sources, held)
        pins = Path(aside) / "pins.txt"
        pins.write_text("".join(f"{line}\n" for line in _list_pins()), encoding="utf-8")
        root = Path(aside) / "root"
        options = [*sources.list_options(), "--prefix", str(root), "--constraint", str(pins)]
        _run_pip(options, packages, Path(aside) / "pip.log", report)
        _gather(root, folder)


def _check(packages: Sequence[str]) -> None:
    if importlib.util.find_spec("pip") is None:
        msg = "this image has no pip to install packages with; add it, or build on strandline's"
        raise PackageError(msg)
    for package, found in find_absent(packages).items():
        if found is not None:
            name, version = split_package(package)
            msg = (
                f"the image has {name} {found}, which can't be replaced by {version}; request the "
                "installed version, or build an image"
            )
            raise PackageError(msg)


def _bring_near(sources: PackageSources, folder: Path) -> PackageSources:
    wheels = sources.wheels
    if wheels is None or _OF_PIP.match(wheels):
        return sources
    folder.mkdir()
    if not copy_matching(wheels, WHEEL, folder):
        raise PackageError(f"{wheels}: no file ends in {WHEEL}")
    return replace(sources, wheels=str(folder))


def _list_pins() -> Iterator[str]:
    """Yield pins for all installed packages, so that pip changes no version."""
    seen = set()
    for found in metadata.distributions():
        name = found.metadata["Name"]
        if name and name.lower() not in seen:
            seen.add(name.lower())
            yield f"{name}=={found.version}"


def _run_pip(
    options: list[str], packages: Sequence[str], log: Path, report: Callable[[str], None]
) -> None:
    quiet = ["--no-input", "--disable-pip-version-check", "--no-cache-dir", "--progress-bar=off"]
    quiet.append("--no-warn-script-location")
    quiet += ["--log", str(log)]
    # `-P` keeps the current folder off the import path.
    command = [sys.executable, "-P", "-m", "pip", "install", *quiet, *options, "--", *packages]
    with subprocess.Popen(  # noqa: S603 - pip, and packages that can't be options
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as pip:
        assert pip.stdout is not None  # true with `stdout=PIPE`
        for line in pip.stdout:
            report(line.rstrip())
    if pip.returncode:
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        lines = [_STAMP.sub("", line) for line in text.splitlines()]
        kind = UnreachableError if any(map(_PASSING.search, lines)) else PackageError
        raise kind(f"pip can't install {', '.join(packages)}: {_sum_up(lines)}")


def _sum_up(lines: Sequence[str]) -> str:
    """Return pip's own error messages and, for a conflict, the conflicting requirements."""
    patterns = (_UNFETCHED, _ERROR, _REQUIREMENT)
    found = (pattern.search(line) for pattern in patterns for line in lines)
    message = dict.fromkeys(match["said"].strip() for match in found if match)
    text = "; ".join(message) or "its log shows why"
    return text if len(text) <= _MOST_WORDS else f"{text[:_MOST_WORDS]}…"


def _gather(root: Path, folder: Path) -> None:
    """Collect the installed packages in one folder, regardless of Python's installation scheme."""
    folder.mkdir()
    for kind in ("site-packages", "dist-packages"):
        for found in sorted(root.rglob(kind)):
            if not any(parent.name == kind for parent in found.relative_to(root).parents):
                shutil.copytree(found, folder, dirs_exist_ok=True, copy_function=_link)


def _link(source: str, target: str) -> None:
    """Hard-link a file instead of copying it, because both paths are on the same disk."""
    os.link(source, target)


def _find_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _is_same(found: str | None, package: str) -> bool:
    wanted = split_package(package)[1]
    if found is None:
        return False
    if "+" not in wanted:  # ignore the local part of an installed version
        found = found.partition("+")[0]
    return _fold(found) == _fold(wanted)


def _fold(version: str) -> str:
    # Remove trailing zeros, because versions such as 1.0 and 1 are equal.
    return re.sub(r"(\.0+)+$", "", version.lower().lstrip("v"))
