"""Tests both images as pods would use them, without a cluster.

Reads archives, and reports a sentence per passed check. This module must not depend on how the
images were built.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from images.errors import ImagesError
from images.names import Images
from images.trials.room import UNSHARE, USER
from images.trials.sizes import read_configuration
from images.trials.unpack import unpack

EXAMPLE = "pipelines/examples/python-functions.yaml"
WAIT_SECONDS = 600
VERSION = "from importlib.metadata import version; version('strandline')"
EXTRACT = (
    "from strandline_packs.web.extraction import ExtractionSettings as S; "
    "from strandline_packs.web.extractor_process import ExtractorProcess as P; "
    "print(P(S(), 20).extract(b'<p>', ''))"
)
START = "ulimit -n 65536 || true; ray start --head --num-cpus=1 --object-store-memory=100000000"


@dataclass(frozen=True, slots=True)
class Check:
    """A check of an image: a command, its expected output, and its expected exit code.

    Attributes:
        title: feature that works if the check passes.
        command: command for /bin/sh.
        answer: text that the output must contain.
        code: expected exit code.
    """

    title: str
    command: str
    answer: str = ""
    code: int = 0


BOTH = (
    Check("it runs as user 1000", "id -u; id -g", f"{USER}\n{USER}\n"),
    Check("its root can't be written", "touch /opt/strandline/x 2>&1", "Read-only file system", 1),
    Check("bash and sleep are there", "bash -c 'ulimit -n && sleep 0'"),
    Check(
        "bytecode is there",
        "cd /opt/strandline/lib/python3*/site-packages && ls strandline_api/__pycache__",
    ),
    Check("the product has its version", f'python -c "{VERSION}"'),
)
CHECKS = {
    "operator": (
        *BOTH,
        Check("the operator helps", "strandline-operator --help", "--namespaces"),
        Check("kopf is in the bill", "grep pkg:pypi/kopf@ /usr/share/strandline/sbom.spdx.json"),
        Check("Debian is in the bill", "grep pkg:deb/ /usr/share/strandline/sbom.spdx.json"),
        Check("there is no pip", "python -c 'import pip' 2>&1", "No module named 'pip'", 1),
        Check("there is no Ray", "python -c 'import ray' 2>&1", "No module named 'ray'", 1),
        Check("without a cluster it says so", "strandline-operator 2>&1", "", 64),
    ),
    "runtime": (
        *BOTH,
        Check("Ray is in the bill", "grep pkg:pypi/ray@ /usr/share/strandline/sbom.spdx.json"),
        Check(
            "pip looks for packages where it is told",
            "mkdir /tmp/wheels && strandline fetch-code --into /tmp/code '"
            '{"packages": ["nowhere-to-be-found==1"], "wheels": "/tmp/wheels"}\' 2>&1',
            "No matching distribution found for nowhere-to-be-found==1",
            64,
        ),
        Check("text is extracted", f'python -c "{EXTRACT}"', "problem='no text'"),
        Check("there is no kopf", "python -c 'import kopf' 2>&1", "No module named 'kopf'", 1),
        Check(
            "it runs the main example",
            "strandline run /etc/strandline.yaml --volume /tmp/volume --engine inline 2>&1",
        ),
        Check(
            "Ray takes jobs",
            f"{START} && ray job submit --address http://127.0.0.1:8265 -- "
            "python -c 'print(6 * 7000001)' 2>&1 && ray stop",
            "42000006",
        ),
    ),
}


def try_images(root: Path, images: Images, out: TextIO) -> None:
    """Run all checks of both images.

    Raises:
        ImagesError: if a check fails. The message contains the output.
    """
    if os.geteuid() != 0:
        raise ImagesError("trying the images needs root: they get a root file system of their own")
    for target, checks in CHECKS.items():
        archive = images.find_archive(target)
        with _lay_out(archive) as location:
            shutil.copy(root / EXAMPLE, location / "etc/strandline.yaml")
            environment = dict(word.split("=", 1) for word in read_configuration(archive)["Env"])
            for check in checks:
                _try(check, location, environment)
                print(f"{target}: {check.title}", file=out, flush=True)


def _try(check: Check, location: Path, environment: dict[str, str]) -> None:
    words = [sys.executable, "-m", "images.trials.room", str(location), json.dumps(environment)]
    command = [*UNSHARE, *words, "/bin/sh", "-c", check.command]
    folder = str(Path(__file__).resolve().parents[2])
    done = subprocess.run(
        command,
        env=os.environ | {"PYTHONPATH": folder},
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    if done.returncode != check.code or check.answer not in done.stdout:
        output = f"{done.stdout}{done.stderr}"
        raise ImagesError(f"{output}\nnot so: {check.title} (exit code {done.returncode})")


@contextmanager
def _lay_out(archive: Path) -> Iterator[Path]:
    """Unpack the image's root file system for the duration of a check."""
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        location = Path(folder) / "root"
        location.mkdir(mode=0o755)
        unpack(archive, location)
        yield location
