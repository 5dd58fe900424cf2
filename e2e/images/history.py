"""The sources of an earlier state of the repository, for what must get along with it.

Nothing of them is kept beside today's: they come out of the repository's own history. It must not
know what is built or read from them.
"""

from __future__ import annotations

import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from images.errors import ImagesError
from images.programs import read_output

# The state that today's must get along with, both ways. Each release moves it to the one before.
LAST_RELEASE = "ea59655b63faa5879f81bbb9c14439988d00fa4e"


class NoHistoryError(ImagesError):
    """The commit is not in this copy of the repository."""


def need_sources(root: Path, commit: str, folder: Path, locations: Sequence[str] = ()) -> Path:
    """Return the files of a commit in a folder of their own, unpacked once.

    Args:
        root: of the repository.
        folder: where the folder is made, or found.
        locations: what of the commit is wanted; empty for all of it.

    Raises:
        NoHistoryError: there is no such commit here, as in a shallow clone or an archive.
    """
    unpacked = folder / f"sources-{commit[:12]}"
    if not unpacked.is_dir():
        if read_output(["git", "cat-file", "-e", f"{commit}^{{commit}}"], folder=root) is None:
            raise NoHistoryError(
                f"this copy of the repository lacks commit {commit[:12]}; "
                "where it is a shallow clone: git fetch --unshallow"
            )
        folder.mkdir(parents=True, exist_ok=True)
        # Under its name only when it is whole; two that unpack at a time do not meet.
        with tempfile.TemporaryDirectory(dir=folder) as making:
            _unpack(root, [commit, "--", *locations], Path(making) / "sources")
            _put(Path(making) / "sources", unpacked)
    return unpacked


def _unpack(root: Path, wanted: Sequence[str], location: Path) -> None:
    command = ["git", "archive", "--format=tar", *wanted]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None  # a pipe
        with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
            # Early releases of 3.11 have no filter; this is an archive of our own commit.
            kept = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            archive.extractall(location, **kept)  # type: ignore[arg-type]  # noqa: S202 - see above
    if process.returncode:
        raise ImagesError(f"git archive ended with {process.returncode}")


def _put(made: Path, location: Path) -> None:
    try:
        made.rename(location)
    except OSError:
        if not location.is_dir():  # another build was quicker
            raise
