"""OCI archives are measured, read, and unpacked without the program that made them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from images.errors import ImagesError
from images.programs import run_logged
from images.trials.sizes import describe_sizes, read_configuration
from images.trials.unpack import unpack

File = tuple[str, bytes]


def pack(files: Sequence[File]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files:
            entry = tarfile.TarInfo(name)
            entry.size, entry.uid, entry.gid = len(content), os.getuid(), os.getgid()
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def pack_image(layers: Sequence[bytes], path: Path) -> Path:
    blobs: dict[str, bytes] = {}

    def keep(content: bytes) -> dict[str, object]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"digest": f"sha256:{digest}", "size": len(content)}

    config = keep(json.dumps({"config": {"User": "1000:1000", "Env": ["A=b"]}}).encode())
    manifest = {"config": config, "layers": [keep(layer) for layer in layers]}
    index = {"manifests": [keep(json.dumps(manifest).encode())]}
    path.write_bytes(pack([("index.json", json.dumps(index).encode()), *blobs.items()]))
    return path


LOWER = pack([("etc/a", b"1"), ("etc/b", b"2"), ("opt/x/y", b"3")])
UPPER = pack([("etc/a", b"4"), ("etc/.wh.b", b""), (".wh.opt", b""), ("new", b"5")])


@pytest.mark.parametrize("shrink", [gzip.compress, bytes], ids=["compressed", "plain"])
def test_upper_layers_replace_and_remove(tmp_path: Path, shrink: object) -> None:
    assert callable(shrink)
    archive = pack_image([shrink(LOWER), shrink(UPPER)], tmp_path / "image.tar")
    root = tmp_path / "root"
    root.mkdir()

    unpack(archive, root)

    found = {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}
    assert found == {"etc/a": b"4", "new": b"5"}


def test_a_link_that_becomes_a_file_is_not_followed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "outside").write_text("kept")
    (root / "b").symlink_to(tmp_path / "outside")

    unpack(pack_image([pack([("b", b"2")])], tmp_path / "image.tar"), root)

    assert not (root / "b").is_symlink()
    assert (tmp_path / "outside").read_text() == "kept"


def test_sizes_are_listed_by_layer(tmp_path: Path) -> None:
    layer = pack([("zeros", bytes(3 * 2**20))])
    archive = pack_image([gzip.compress(layer), layer], tmp_path / "image.tar")

    lines = describe_sizes("runtime", archive).splitlines()

    assert lines[0].startswith("runtime: 3.0 MiB")
    assert lines[1:] == [
        "  layer 1:     0.0 MiB,     3.0 MiB unpacked",
        "  layer 2:     3.0 MiB,     3.0 MiB unpacked",
    ]


def test_the_run_configuration_is_read(tmp_path: Path) -> None:
    archive = pack_image([LOWER], tmp_path / "image.tar")

    assert read_configuration(archive) == {"User": "1000:1000", "Env": ["A=b"]}


def test_a_failed_program_is_reported_with_its_last_output(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = ["sh", "-c", "seq 30; echo from https://example.com/x; exit 3"]

    with pytest.raises(ImagesError, match="it broke; all that was said is in") as caught:
        run_logged(command, log, failure="it broke")

    assert "\n30\nfrom <address>\n" in str(caught.value)
    assert "\n11\n" not in f"\n{caught.value}"
    assert "https://example.com/x" in log.read_text()
