"""Makes a pipeline's own code importable.

In a pod, the code has been fetched and mounted before. On a laptop, an archive is fetched into the
user's cache, packages must already be installed, and the files of a ConfigMap must already be
importable. This module must not depend on stages or plans.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from strandline.plan.errors import StrandlineError, code_of
from strandline.plan.pipeline import BroughtCode
from strandline.run.code.packages import (
    PackageSources,
    find_absent,
    format_command,
    install_packages,
)
from strandline.storage.archives import fetch_archive
from strandline_api.documents.problems import Problem, SpecError
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.spec.code import (
    ARCHIVE,
    CODE_VARIABLE,
    FILES,
    PACKAGES,
    Code,
    CodeArchive,
    list_code_folders,
    split_package,
)

AT = "spec.code"
_MOST_NAMES = 12  # maximum number of modules in a message


def bring_code(
    code: Code,
    environment: MutableMapping[str, str] = os.environ,
    path: list[str] = sys.path,
) -> BroughtCode:
    """Make a pipeline's code importable in this process and its children.

    Raises:
        SpecError: if the code does not match the spec, or can't be found.
        StrandlineError: if the code can't be fetched now.
    """
    if not code.is_given:
        return BroughtCode()
    root = environment.get(CODE_VARIABLE)
    if root is not None:
        found = _list_mounted(code, Path(root))
    else:
        found = [] if code.archive is None else [_fetch_cached(code.archive, environment)]
        _put_on_path(found, environment, path)
    _check_packages(code)
    files = None if root is None or code.config_map is None else Path(root) / FILES
    return BroughtCode(dict(_list_parts(code, files)), _hint(code, found, is_pod=root is not None))


def fetch_code(code: Code, folder: Path, report: Callable[[str], None]) -> None:
    """Fetch archive and packages into a folder that will be mounted into pods.

    Raises:
        SpecError, StrandlineError: as in `bring_code`.
    """
    if code.archive is not None:
        _fetch(code.archive, folder / ARCHIVE, is_kept=False)
    if code.packages:
        sources = PackageSources(code.index, code.wheels)
        with _naming(f"{AT}.packages"):
            install_packages(code.packages, sources, folder / PACKAGES, report)


def digest_files(folder: Path) -> str:
    """Return a digest of the files directly in a folder, by name and content.

    Names that begin with two dots are skipped: Kubernetes uses them in the mount of a ConfigMap.
    """
    digest = sha256()
    for path in sorted(folder.iterdir()):
        if path.is_file() and not path.name.startswith(".."):
            # Include lengths, so that different names and contents never give the same bytes.
            for part in (path.name.encode(), path.read_bytes()):
                digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def find_cache(environment: Mapping[str, str]) -> Path:
    """Return the folder that caches archives on a laptop, by digest."""
    given = environment.get("XDG_CACHE_HOME")
    # The variable HOME may be missing in containers.
    cache = Path(given) if given else Path(environment.get("HOME") or "/tmp") / ".cache"  # noqa: S108
    return cache / "strandline" / "code"


def _list_mounted(code: Code, root: Path) -> list[Path]:
    folders = list_code_folders(code.model_copy(update={"packages": ()}))
    return [root / folder for folder in folders]


def _fetch_cached(archive: CodeArchive, environment: Mapping[str, str]) -> Path:
    return _fetch(archive, find_cache(environment) / archive.sha256, is_kept=True)


def _fetch(archive: CodeArchive, folder: Path, *, is_kept: bool) -> Path:
    """Fetch an archive, and return the folder in it from which modules are imported."""
    with _naming(f"{AT}.archive"):
        fetch_archive(archive.url, archive.sha256, folder, time.sleep, is_kept=is_kept)
    root = folder / archive.path if archive.path else folder
    if not root.is_dir():
        message = f"the archive has no folder {archive.path!r}"
        at_top = f"its top level contains: {_join(path.name for path in folder.iterdir())}"
        raise SpecError((Problem(f"{AT}.archive.path", message, at_top),))
    return root


def _put_on_path(
    folders: Sequence[Path], environment: MutableMapping[str, str], path: list[str]
) -> None:
    """Put folders first on the import path, here and in the processes that Ray starts."""
    names = [str(folder) for folder in folders]
    if not names:
        return
    path[:0] = [name for name in names if name not in path]
    given = environment.get("PYTHONPATH", "").split(os.pathsep)
    others = [name for name in given if name and name not in names]
    environment["PYTHONPATH"] = os.pathsep.join([*names, *others])


def _check_packages(code: Code) -> None:
    absent = find_absent(code.packages)
    advice = f"run: {format_command(list(absent), PackageSources(code.index, code.wheels))}"
    problems = []
    for package, found in absent.items():
        name, version = split_package(package)
        at = f"{AT}.packages[{code.packages.index(package)}]"
        is_here = f"{version} is not installed on this machine"
        is_here = is_here if found is None else f"is {found} on this machine, not {version}"
        problems.append(Problem(at, f"{name} {is_here}", advice))
    if problems:
        raise SpecError(tuple(problems))


def _list_parts(code: Code, files: Path | None) -> Iterator[tuple[str, Any]]:
    """Yield the properties of the code that determine the output, but not the code's location."""
    if files is not None:
        yield "code.files", digest_files(files)
    if code.archive is not None:
        yield "code.archive", code.archive.sha256
        if code.archive.path:
            yield "code.archive.path", code.archive.path
    if code.packages:
        yield "code.packages", sorted(code.packages)


def _hint(code: Code, folders: Sequence[Path], *, is_pod: bool) -> str:
    if code.config_map is not None and not is_pod:
        return (
            "a run on this machine can't read ConfigMaps: start the run in the folder with the "
            f"files of ConfigMap {code.config_map!r}, or add that folder to PYTHONPATH"
        )
    entries = (path for folder in folders if folder.is_dir() for path in folder.iterdir())
    names = {path.stem for path in entries if path.suffix == ".py" or path.is_dir()}
    modules = sorted(name for name in names if name.isidentifier() and name != "__pycache__")
    return f"the code in `code` contains: {_join(modules)}" if modules else ""


def _join(names: Iterable[str]) -> str:
    found = sorted(names)
    more = [f"and {len(found) - _MOST_NAMES} more"] if len(found) > _MOST_NAMES else []
    return ", ".join([*found[:_MOST_NAMES], *more])


@contextmanager
def _naming(at: str) -> Iterator[None]:
    """Turn an error that a retry can't fix into a problem of the spec."""
    try:
        yield
    except StrandlineError as error:
        if code_of(error) is not ExitCode.BAD_SPEC:
            raise
        raise SpecError((Problem(at, str(error)),)) from error
