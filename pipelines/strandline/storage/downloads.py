"""Downloads files to a local disk: by HTTP, from an object store, or from a folder.

The errors distinguish temporary from permanent failures. The module must not depend on the content.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from http import HTTPStatus
from http.client import HTTPResponse
from pathlib import Path
from typing import BinaryIO, cast

from strandline.plan.errors import StrandlineError
from strandline.storage.access.refusals import CredentialsRefusedError, describe_store_error
from strandline.storage.access.stores import open_store, open_url
from strandline.storage.errors import naming_volume
from strandline_api.outcome.exit_codes import ExitCode

MOST_BYTES = 1 << 30
PAUSES = (1.0, 4.0)  # seconds to wait before the second and the third try
_SECONDS = 60.0  # seconds without data before a connection times out
_BLOCK = 1 << 20
# Client errors that may disappear on a retry.
_PASSING = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})


class UnreachableError(StrandlineError):
    """Raised if a location is temporarily unreachable."""


class NothingThereError(StrandlineError):
    """Raised if a location has no usable file, so a retry would not help."""

    exit_code = ExitCode.BAD_SPEC


def download(url: str, target: Path, sleep: Callable[[float], None]) -> str:
    """Copy a file to `target`, which must not exist. Return the SHA-256 in hexadecimal.

    Args:
        url: an `https://` URL, any other URL that fsspec supports, or a path.

    Raises:
        UnreachableError: if three tries have failed.
        NothingThereError: if the file is missing, larger than 1 GiB, or not readable.
        VolumeError: if the disk is full.
    """
    for pause in PAUSES:
        try:
            return _copy(url, target)
        except UnreachableError:
            target.unlink(missing_ok=True)
            sleep(pause)
    return _copy(url, target)


def copy_matching(url: str, ending: str, folder: Path) -> int:
    """Copy the files directly below a URL with a matching suffix. Return the number of files.

    Raises:
        UnreachableError, NothingThereError: see `download`.
    """
    with _explaining(url):
        filesystem, root = open_store(url)
        found = [str(path) for path in filesystem.ls(root, detail=False)]
        chosen = [path for path in found if path.endswith(ending)]
        for path in chosen:
            filesystem.get_file(path, str(folder / path.rpartition("/")[2]))
    return len(chosen)


def _copy(url: str, target: Path) -> str:
    digest, size = sha256(), 0
    with naming_volume(target), target.open("xb") as file:
        for block in _read(url):
            digest.update(block)
            size += len(block)
            if size > MOST_BYTES:
                msg = (
                    f"{url}: the file has more than {MOST_BYTES >> 20} MiB; make it smaller, or "
                    "build an image that contains it"
                )
                raise NothingThereError(msg)
            file.write(block)
    return digest.hexdigest()


def _read(url: str) -> Iterator[bytes]:
    # `_explaining` covers only errors of the source: errors of writing are raised in the caller,
    # which consumes the blocks.
    with _explaining(url), _open(url) as source:
        while block := source.read(_BLOCK):
            yield block
        # Compare the length, because Python's HTTP client treats a lost connection as the end of
        # the file.
        if isinstance(source, HTTPResponse) and source.length:
            raise ConnectionError(f"the response ended {source.length:,} bytes early")


def _open(url: str) -> BinaryIO:
    if url.startswith(("https://", "http://")):
        # The scheme is checked above. A malicious URL adds no risk: the pipeline's authors can run
        # their own code anyway.
        return cast("BinaryIO", urllib.request.urlopen(url, timeout=_SECONDS))  # noqa: S310
    return open_url(url)


@contextmanager
def _explaining(url: str) -> Iterator[None]:
    """Turn any error of a file system into one of this module's errors, which names the URL."""
    try:
        yield
    except urllib.error.HTTPError as error:
        is_final = error.code < HTTPStatus.INTERNAL_SERVER_ERROR and error.code not in _PASSING
        kind = NothingThereError if is_final else UnreachableError
        error.close()  # the error object keeps the connection open
        msg = f"{url}: the server returned {error.code} {error.reason}"
        raise kind(msg) from error
    except FileNotFoundError as error:
        msg = f"{url}: the file does not exist"
        raise NothingThereError(msg) from error
    except CredentialsRefusedError:
        raise
    except (PermissionError, ImportError, ValueError) as error:
        # Permission is missing, the library of the protocol is missing, or the protocol is unknown.
        raise NothingThereError(f"{url}: {describe_store_error(error)}") from error
    except Exception as error:  # each file system has its own error classes
        msg = f"{url}: can't be reached ({describe_store_error(error)})"
        raise UnreachableError(msg) from error
