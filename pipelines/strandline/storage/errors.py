"""Errors of volumes. Each message is one sentence."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from strandline.plan.errors import StrandlineError
from strandline_api.outcome.exit_codes import ExitCode

_SENTENCES = {
    errno.ENOSPC: "no space is left on the volume; free some space or enlarge the volume",
    errno.EDQUOT: "the disk quota of the volume is used up; free some space or raise the quota",
    errno.EACCES: "no permission to write; check the owner and mode of the folder",
    errno.EPERM: "no permission to write; check the owner and mode of the folder",
    errno.EROFS: "the volume is mounted read-only",
    errno.EIO: "the volume reports an input/output error; check the disk",
    errno.ENOTDIR: "this is a file, but a folder is needed",
    errno.EEXIST: "this is a file, but a folder is needed",
}


class VolumeError(StrandlineError):
    """Raised if the volume can't be used. The message is one sentence with the path."""

    exit_code = ExitCode.VOLUME_UNUSABLE


class HeldError(StrandlineError):
    """Raised if another process already does the requested work."""

    exit_code = ExitCode.LEDGER_IN_USE


@contextmanager
def naming_volume(path: object) -> Iterator[None]:
    """Turn an `OSError` in the block into a `VolumeError` that names `path` and the remedy."""
    try:
        yield
    except OSError as error:
        sentence = _SENTENCES.get(error.errno or 0, error.strerror or str(error))
        msg = f"{path}: {sentence}"
        raise VolumeError(msg) from error
