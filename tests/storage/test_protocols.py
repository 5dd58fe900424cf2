"""The reason that a URL cannot be opened is found without opening anything."""

from __future__ import annotations

import sys

import pytest
from fsspec.registry import known_implementations

from strandline.storage.access.protocols import Lack, find_lack
from strandline.storage.access.refusals import describe_store_error


@pytest.mark.parametrize(
    "url",
    [
        "/data/in",
        "in/*.txt",
        "file:///data",
        "memory://bucket/a",
        "simplecache::memory://a/b",
        "a:b",
    ],
)
def test_supported_urls_lack_nothing(url: str) -> None:
    assert find_lack(url) is None


@pytest.mark.parametrize(
    ("url", "module", "extra"),
    [
        ("s3://bucket/in", "s3fs", "stores"),
        ("gs://bucket/in", "gcsfs", "stores"),
        ("abfs://bucket/in", "adlfs", "stores"),
        ("https://host/in", "aiohttp", "stores"),
        ("filecache::s3://bucket/in", "s3fs", "stores"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, url: str, module: str, extra: str
) -> None:
    for loaded in [name for name in sys.modules if name.startswith("fsspec.implementations.http")]:
        monkeypatch.delitem(sys.modules, loaded)
    known = sys.modules["fsspec.registry"]._registry  # contains protocols that were loaded before
    for part in url.split("::"):
        monkeypatch.delitem(known, part.partition(":")[0], raising=False)
    monkeypatch.setitem(sys.modules, module, None)

    lack = find_lack(url)

    assert lack is not None
    assert lack.message.endswith(f":// needs the package {module}, which is not installed")
    assert lack.hint == f"pip install 'strandline[{extra}]'"


def test_a_protocol_of_a_package_that_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {"class": "sandfs.fs.SandFileSystem", "err": "Install sandfs"}
    monkeypatch.setitem(known_implementations, "sand", entry)

    lack = find_lack("sand://beach")

    assert lack is not None
    assert "sand:// needs the package sandfs" in lack.message
    assert "'sandfs'" in lack.hint


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("s4://bucket/in", "did you mean s3://?"),
        ("qqqqqq://a", "see fsspec's list of file systems"),
    ],
)
def test_an_unknown_protocol(url: str, hint: str) -> None:
    protocol = url.partition(":")[0]
    message = f"unknown protocol {protocol}://"
    assert find_lack(url) == Lack(message, hint)


def test_an_error_without_a_message_is_named_by_its_type() -> None:
    assert describe_store_error(OSError("a\nb")) == "a b"
    assert describe_store_error(TimeoutError()) == "TimeoutError"
