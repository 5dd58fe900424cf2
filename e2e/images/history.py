"""Provides sources of an earlier commit, for tests of compatibility with that release.

The files come from the repository's own history, so no copies are checked in. This module must not
depend on the use of the sources.
"""

from __future__ import annotations

import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from images.errors import ImagesError
from images.programs import read_output

# Commit of the last release. Current code must be compatible with that release in both directions.
# Update the commit at each release.
LAST_RELEASE = "ea59655b63faa5879f81bbb9c14439988d00fa4e"


class NoHistoryError(ImagesError):
    """Raised if the commit is missing from this copy of the repository."""


def need_sources(root: Path, commit: str, folder: Path, locations: Sequence[str] = ()) -> Path:
    """Return a folder with the files of a commit, unpacked once.

    Args:
        root: root of the repository.
        folder: parent of the returned folder.
        locations: paths to unpack; empty for the whole commit.

    Raises:
        NoHistoryError: if the commit is missing, as in a shallow clone or an archive.
    """
    unpacked = folder / f"sources-{commit[:12]}"
    if not unpacked.is_dir():
        if read_output(["git", "cat-file", "-e", f"{commit}^{{commit}}"], folder=root) is None:
            raise NoHistoryError(
                f"this copy of the repository lacks commit {commit[:12]}; "
                "where it is a shallow clone: git fetch --unshallow"
            )
        folder.mkdir(parents=True, exist_ok=True)
        # Rename the folder only when complete, so concurrent unpackers do not interfere.
        with tempfile.TemporaryDirectory(dir=folder) as making:
            _unpack(root, [commit, "--", *locations], Path(making) / "sources")
            _put(Path(making) / "sources", unpacked)
    return unpacked


def _unpack(root: Path, wanted: Sequence[str], location: Path) -> None:
    command = ["git", "archive", "--format=tar", *wanted]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None  # because stdout is a pipe
        with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
            # Early releases of Python 3.11 lack filters. The archive is safe, because it is a
            # commit of this repository.
            kept = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            archive.extractall(location, **kept)  # type: ignore[arg-type]  # noqa: S202 - see above
    if process.returncode:
        raise ImagesError(f"git archive ended with {process.returncode}")


def _put(made: Path, location: Path) -> None:
    try:
        made.rename(location)
    except OSError:
        if not location.is_dir():  # unless a concurrent call created the folder first
            raise
