"""Local emulators of Google's and Azure's stores. The emulators end with the test session.

Google's emulator checks no credentials; Azure's does. This module must not depend on the stored
objects.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import adlfs
import gcsfs

from control_plane import find_free_ports
from store_server import Store, find_program, keep_running, require

# Otherwise Google's library queries another service for each bucket's kind; see tests/conftest.py.
_KINDS = {"GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false"}
_NONE = "NO SERVER FOR {}, so its stores were not tested: install {} and run `make {}`, once"
NEEDED = {"gs": "STRANDLINE_NEEDS_GCS", "abfs": "STRANDLINE_NEEDS_AZURE"}
find_google = partial(
    find_program,
    "gcs",
    "fake-gcs-server",
    NEEDED["gs"],
    _NONE.format("gs://", "Go 1.26 or newer", "gcs"),
)
find_azure = partial(
    find_program,
    "azure",
    "server/node_modules/.bin/azurite-blob",
    NEEDED["abfs"],
    _NONE.format("abfs://", "Node.js 20 or newer", "azure"),
)
ACCOUNT = "reader"
ACCOUNT_KEY = b64encode(b"known-to-tests").decode()


class GoogleStore(Store):
    """A `gs://` server that accepts every client."""

    protocol: ClassVar[str] = "gs"
    spoilt: ClassVar[Mapping[str, tuple[Mapping[str, str], str]]] = {}

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables that a process needs."""
        return {"STORAGE_EMULATOR_HOST": self.url, **_KINDS}

    def open(self) -> Any:
        """Return the store with the owner's rights."""
        return gcsfs.GCSFileSystem(
            token="anon",  # noqa: S106 - which says that there is none
            endpoint_url=self.url,
            use_listings_cache=False,
            skip_instance_cache=True,
        )


class AzureStore(Store):
    """An `abfs://` server with an account whose key it checks."""

    protocol: ClassVar[str] = "abfs"

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables that a process needs, as in a Secret."""
        return {"AZURE_STORAGE_CONNECTION_STRING": self.connect(ACCOUNT_KEY)}

    def connect(self, key: str) -> str:
        """Return the connection string for a key."""
        return (
            f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={key};"
            f"BlobEndpoint={self.url}/{ACCOUNT};"
        )

    @property
    def spoilt(self) -> dict[str, tuple[dict[str, str], str]]:  # type: ignore[override]
        """Environment variables with invalid credentials, and the expected message for each."""
        wrong = self.connect(b64encode(b"another").decode())
        name = "AZURE_STORAGE_CONNECTION_STRING"
        return {
            "wrong key": ({name: wrong}, "authenticate the request"),
            "none": ({name: ""}, "unable to connect to account"),
        }

    def open(self) -> Any:
        """Return the store with the owner's rights."""
        return adlfs.AzureBlobFileSystem(
            connection_string=self.connect(ACCOUNT_KEY),
            use_listings_cache=False,
            skip_instance_cache=True,
        )


@contextmanager
def serve_google(folder: Path) -> Iterator[Store]:
    """Run an empty in-memory server for the duration of the block, if its program exists."""
    program = require(find_google, NEEDED["gs"])
    (port,) = find_free_ports(1)
    address = f"127.0.0.1:{port}"
    words = [str(program), "-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
    words += ["-public-host", address, "-backend", "memory", "-log-level", "error"]
    with keep_running(words, port, folder, {"HOME": str(folder)}):
        yield GoogleStore(f"http://{address}")


@contextmanager
def serve_azure(folder: Path) -> Iterator[Store]:
    """Run an empty in-memory server for the duration of the block, if its program exists."""
    program = require(find_azure, NEEDED["abfs"])
    (port,) = find_free_ports(1)
    words = [str(program), "--blobHost", "127.0.0.1", "--blobPort", str(port), "--silent"]
    words += ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"]
    variables = {
        "AZURITE_ACCOUNTS": f"{ACCOUNT}:{ACCOUNT_KEY}",
        "HOME": str(folder),
        "PATH": os.environ["PATH"],
    }
    with keep_running(words, port, folder, variables):
        yield AzureStore(f"http://127.0.0.1:{port}")
