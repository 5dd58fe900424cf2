"""Readings of objects by Flux and Argo CD, from a program with the libraries of both.

    reader = Reader(find_program())
    reader.read({"one": body})["one"]     # Reading(flux="Current", argo="Progressing", ...)

`make gitops` builds the program and prints its path. The module must not depend on the expected
readings.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Body = dict[str, Any]

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "e2e" / "gitops"
ARGO_CD = ROOT / "charts" / "argocd"
SETTINGS = ARGO_CD / "argocd-cm.yaml"
PLACE = "STRANDLINE_GITOPS"
ADVICE = (
    "FLUX AND ARGO CD WERE NOT ASKED how they read our statuses: `make gitops` builds what asks"
    " them, once, and runs these tests; it needs Go 1.24 or newer"
)


class NoReaderError(Exception):
    """The program is missing; the message explains how to get it."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The readings of an object: kstatus and health, or `error:` and a sentence."""

    flux: str
    argo: str
    flux_message: str = ""
    argo_message: str = ""

    @property
    def pair(self) -> tuple[str, str]:
        """Both readings, as one word each."""
        return self.flux, self.argo


@dataclass(frozen=True, slots=True)
class Reader:
    """The program, with Argo CD's settings."""

    program: Path
    settings: Path = SETTINGS

    def read(
        self, bodies: Mapping[str, Body], expressions: Body | None = None
    ) -> dict[str, Reading]:
        """Read objects in a single run of the program; return the readings by name.

        If health check expressions are given, Flux uses the expressions.
        """
        extra = {"expressions": expressions} if expressions else {}
        questions = [{"name": name, "object": body, **extra} for name, body in bodies.items()]
        done = subprocess.run(
            [self.program, self.settings],
            input=json.dumps(questions),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return {
            load["name"]: _spell(load["flux"], load["argo"]) for load in json.loads(done.stdout)
        }


def find_program() -> Path:
    """Find the program, in the environment variable's place or in the cache of `make gitops`.

    Raises:
        NoReaderError: if the program is missing.
    """
    program = Path(os.environ.get(PLACE) or find_cached())
    if not program.is_file():
        raise NoReaderError(ADVICE)
    return program


def find_cached() -> Path:
    """Return the cache path of the program for these sources."""
    names = ["go.mod", "go.sum", *sorted(path.name for path in SOURCES.glob("*.go"))]
    digest = hashlib.sha256(b"".join((SOURCES / name).read_bytes() for name in names))
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(cache) / "strandline" / f"gitops-{digest.hexdigest()[:16]}"
    return folder / "strandline-gitops"


def _spell(flux: Body, argo: Body) -> Reading:
    return Reading(
        flux=_spell_status(flux),
        argo=_spell_status(argo),
        flux_message=flux.get("message", ""),
        argo_message=argo.get("message", ""),
    )


def _spell_status(told: Body) -> str:
    error = told.get("error")
    return f"error: {error}" if error else str(told.get("status", ""))
