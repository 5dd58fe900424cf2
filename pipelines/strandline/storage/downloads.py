"""A file from anywhere, fetched to a disk here: by HTTP, from an object store, from a folder.

It tells what may be otherwise the next time from what will not. It must not know what is fetched.
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
PAUSES = (1.0, 4.0)  # seconds before the second try and the third
_SECONDS = 60.0  # of silence
_BLOCK = 1 << 20
# A server that says so may say otherwise later.
_PASSING = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})


class UnreachableError(StrandlineError):
    """A place can't be reached now; another time it may be."""


class NothingThereError(StrandlineError):
    """There is nothing to be had at a place, and waiting does not help."""

    exit_code = ExitCode.BAD_SPEC


def download(url: str, target: Path, sleep: Callable[[float], None]) -> str:
    """Copy a file to `target`, which must not exist; its SHA-256 in hexadecimal.

    Args:
        url: `https://`, any other that fsspec knows, or a path.

    Raises:
        UnreachableError: it could not be reached in three tries.
        NothingThereError: it is not there, is more than 1 GiB, or may not be read.
        VolumeError: there is no room for it.
    """
    for pause in PAUSES:
        try:
            return _copy(url, target)
        except UnreachableError:
            target.unlink(missing_ok=True)
            sleep(pause)
    return _copy(url, target)


def copy_matching(url: str, ending: str, folder: Path) -> int:
    """Copy the files right below a URL with names that end so into a folder; how many there were.

    Raises:
        UnreachableError, NothingThereError: as `download`.
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
                msg = f"{url}: it has more than {MOST_BYTES >> 20} MiB; bring less, or an image"
                raise NothingThereError(msg)
            file.write(block)
    return digest.hexdigest()


def _read(url: str) -> Iterator[bytes]:
    # Errors of the reader are raised by the reader, not here.
    with _explaining(url), _open(url) as source:
        while block := source.read(_BLOCK):
            yield block
        # Python's reader of HTTP takes a lost connection for the end.
        if isinstance(source, HTTPResponse) and source.length:
            raise ConnectionError(f"it ended {source.length:,} bytes early")


def _open(url: str) -> BinaryIO:
    if url.startswith(("https://", "http://")):
        # The schemes are checked, and the author of the URL has code of his own run anyway.
        return cast("BinaryIO", urllib.request.urlopen(url, timeout=_SECONDS))  # noqa: S310
    return open_url(url)


@contextmanager
def _explaining(url: str) -> Iterator[None]:
    """Turn whatever a file system raises into one of the two errors, with the place in it."""
    try:
        yield
    except urllib.error.HTTPError as error:
        is_final = error.code < HTTPStatus.INTERNAL_SERVER_ERROR and error.code not in _PASSING
        kind = NothingThereError if is_final else UnreachableError
        error.close()  # the error holds the connection
        msg = f"{url}: the server answers {error.code} {error.reason}"
        raise kind(msg) from error
    except FileNotFoundError as error:
        msg = f"{url}: there is no such file"
        raise NothingThereError(msg) from error
    except CredentialsRefusedError:
        raise
    except (PermissionError, ImportError, ValueError) as error:
        # A right is missing, or a library that a protocol needs, or the protocol is not known.
        raise NothingThereError(f"{url}: {describe_store_error(error)}") from error
    except Exception as error:  # file systems have errors of their own
        msg = f"{url}: can't be reached ({describe_store_error(error)})"
        raise UnreachableError(msg) from error
