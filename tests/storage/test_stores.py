"""Connections to stores are cached, but listings are requested every time. Needs no server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from strandline.storage.access.stores import open_store, open_url
from strandline.storage.outputs.remote import RemoteOutputs
from strandline_packs.sources.files import Files

FILE = "00/file.txt"


class KeepingStore(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Caches listings by default, as the S3 library does."""

    protocol = "keeping"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.removeprefix(f"{cls.protocol}:/")))

    def ls(self, path: str, detail: bool = True, **_: Any) -> Any:
        path = self._strip_protocol(path)
        listed = self.dircache.get(path)
        if listed is None:
            self.dircache[path] = listed = super().ls(path, detail=True)
        return listed if detail else [entry["name"] for entry in listed]

    def info(self, path: str, **_: Any) -> Any:
        path = self._strip_protocol(path)
        for entry in self.dircache.get(path.rpartition("/")[0], ()):
            if entry["name"] == path:
                return entry
        return super().info(path)

    def invalidate_cache(self, path: str | None = None) -> None:
        self.dircache.clear()


class StubbornStore(KeepingStore):
    """Caches listings even if options disable the cache."""

    protocol = "stubborn"

    def __init__(self, **_: Any) -> None:
        super().__init__()


class StrictStore(KeepingStore):
    """Accepts no options, like a library that does not support them."""

    protocol = "strict"

    def __init__(self) -> None:
        super().__init__()


STORES = (KeepingStore, StubbornStore, StrictStore)


@pytest.fixture(params=STORES, ids=lambda kind: str(kind.protocol))
def base(request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield a folder of a store with one file. Other programs also write to the store."""
    kind = request.param
    kind.store, kind.pseudo_dirs = {}, [""]
    fsspec.register_implementation(kind.protocol, kind, clobber=True)
    put(kind.protocol, FILE, b"old")
    yield f"{kind.protocol}://bucket"
    kind.clear_instance_cache()


def put(protocol: str, name: str, content: bytes) -> None:
    """Write a file as another program would, without updating the caches of this process."""
    others = fsspec.filesystem(protocol, skip_instance_cache=True)
    others.pipe_file(f"/bucket/{name}", content)


def remove(protocol: str, name: str) -> None:
    fsspec.filesystem(protocol, skip_instance_cache=True).rm_file(f"/bucket/{name}")


def list_pattern(url: str) -> list[tuple[str, int]]:
    stage = Files(paths=[url])
    return sorted((source.key, source.data["size"][0].as_py()) for source in stage.list_sources())


def list_outputs(url: str) -> list[tuple[str, int]]:
    outputs = OUTPUTS.setdefault(url, RemoteOutputs(url))  # one object for the life of a driver
    return sorted((f"{url}/{name}", size) for name, size in outputs.list_names())


OUTPUTS: dict[str, RemoteOutputs] = {}
LOOKS: dict[str, Callable[[str], Any]] = {
    "a pattern": lambda base: list_pattern(f"{base}/**"),
    "outputs": list_outputs,
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_law_a_listing_is_current(base: str, look: Callable[[str], Any]) -> None:
    OUTPUTS.clear()
    protocol = base.partition(":")[0]
    before = look(base)
    put(protocol, "01/new.txt", b"came")
    put(protocol, FILE, b"has changed")
    came = look(base)
    remove(protocol, FILE)
    gone = look(base)

    assert before == [(f"{base}/{FILE}", 3)]
    assert came == [(f"{base}/{FILE}", 11), (f"{base}/01/new.txt", 4)]
    assert gone == [(f"{base}/01/new.txt", 4)]


def test_law_information_about_a_file_is_current(base: str) -> None:
    outputs, protocol = RemoteOutputs(base), base.partition(":")[0]
    list(outputs.list_names())
    list_pattern(f"{base}/00/*")
    put(protocol, FILE, b"has changed")

    assert list_pattern(f"{base}/{FILE}") == [(f"{base}/{FILE}", 11)]
    with open_url(f"{base}/{FILE}") as file:
        assert file.read() == b"has changed"


def test_caches_of_users_are_not_changed(base: str) -> None:
    protocol = base.partition(":")[0]
    theirs = fsspec.filesystem(protocol)
    theirs.ls("/bucket/00")
    put(protocol, "00/new.txt", b"came")

    ours, root = open_store(f"{base}/00")

    assert len(ours.ls(root)) == 2
    assert len(theirs.ls("/bucket/00")) == 1
    assert protocol != "keeping" or not ours.dircache  # listings of millions are not cached


def test_a_connection_is_kept() -> None:
    assert open_store("memory://a")[0] is open_store("memory://b")[0]


@pytest.mark.parametrize("chain", ["simplecache", "filecache"])
def test_a_cache_on_disk_is_not_treated_as_current(chain: str) -> None:
    memory = fsspec.filesystem("memory")
    for content in (b"old", b"has changed"):
        memory.pipe_file("/chained/a.txt", content)
        with open_url(f"{chain}::memory://chained/a.txt") as file:
            assert file.read() == content
