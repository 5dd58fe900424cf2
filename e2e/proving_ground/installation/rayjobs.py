"""Chooses the controller of RayJobs: the cluster's KubeRay, a checkout's, or the stand-in.

This module must not depend on the rest of the installation.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from proving_ground.cluster.kube import Kube
from proving_ground.installation.kuberay import find_kuberay, install_kuberay, read_checkout
from proving_ground.waiting import wait_for
from real_node.node import Node

ROOT = Path(__file__).parents[3]
SMALL_DEFINITIONS = ROOT / "tests" / "apiserver" / "crds"
SHARED_DEFINITIONS = ROOT.parent / "shared" / "crds" / "kuberay"
KINDS = ("rayclusters", "rayjobs")
STANDIN_LABEL = "strandline.dev/kuberay-standin"
CHECKOUT = "KUBERAY"
DEFINITIONS = "STRANDLINE_KUBERAY_CRDS"


class Carrier(Protocol):
    """A controller of RayJobs."""

    @property
    def version(self) -> str:
        """KubeRay's version, such as `v1.7.0`; empty for the stand-in."""

    def stop(self) -> None:
        """Stop the controller of RayJobs."""

    def start(self) -> None:
        """Start the controller again."""

    def kill(self) -> None:
        """Kill the controller while it works, and start another immediately."""


@dataclass(slots=True)
class Standin:
    """The stand-in for KubeRay, as a process beside the node.

    Attributes:
        log: file with its output.
    """

    kube: Kube
    log: Path
    version: str = ""
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def start(self) -> None:
        """Start the stand-in and wait until it serves RayJobs."""
        command = [sys.executable, "-m", "kuberay_standin", "--kubeconfig"]
        before = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as file:
            process = subprocess.Popen(
                [*command, str(self.kube.kubeconfig)], stdout=file, stderr=file, cwd=ROOT
            )
        self._process = process
        wait_for(
            "the stand-in for KubeRay runs",
            lambda: self.log.stat().st_size > before or process.poll() is not None,
            30,
        )
        assert process.poll() is None, self.log.read_text(encoding="utf-8")

    def stop(self) -> None:
        """Stop the stand-in if it is running."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)
            self._process = None

    def kill(self) -> None:
        """Kill the stand-in and start another."""
        if self._process is not None:
            self._process.kill()
        self.stop()
        self.start()


@contextmanager
def serve_rayjobs(kube: Kube, node: Node | None, folder: Path) -> Iterator[Carrier | None]:
    """Provide a controller of RayJobs. Yield the controller, or None if unknown.

    Args:
        folder: folder for logs.
    """
    checkout = os.environ.get(CHECKOUT)
    if checkout and node is not None:
        yield install_kuberay(kube, node, read_checkout(Path(checkout)))
        return
    if not need_standin(kube):
        yield find_kuberay(kube)
        return
    standin = Standin(kube, folder / "kuberay-standin.log")
    try:
        standin.start()
        yield standin
    finally:
        standin.stop()
        if node is None:
            drop_definitions(kube)


def need_standin(kube: Kube) -> bool:
    """Install KubeRay's CRDs if they are missing. Return whether the stand-in is needed."""
    there = kube.find("crd", "rayjobs.ray.io")
    if there is not None:
        return STANDIN_LABEL in there["metadata"].get("labels", {})
    named = os.environ.get(DEFINITIONS)
    folder = Path(named) if named else SHARED_DEFINITIONS
    paths = [folder / f"ray.io_{plural}.yaml" for plural in KINDS]
    if not named and not all(path.is_file() for path in paths):
        paths = sorted(SMALL_DEFINITIONS.glob("*.yaml"))
    for path in paths:
        kube.call("apply", "--server-side", "-f", str(path))
    names = [f"{plural}.ray.io" for plural in KINDS]
    kube.call("label", "crd", *names, f"{STANDIN_LABEL}=true")
    wait_for("RayJobs are known", lambda: all(_is_served(kube, name) for name in names), 30)
    return True


def drop_definitions(kube: Kube) -> None:
    """Remove the CRDs that were installed for the stand-in."""
    for plural in KINDS:
        kube.delete("crd", f"{plural}.ray.io")


def find_version(carrier: Carrier | None) -> str:
    """Return KubeRay's version; empty for the stand-in."""
    return "of this cluster" if carrier is None else carrier.version


def _is_served(kube: Kube, name: str) -> bool:
    conditions = ((kube.find("crd", name) or {}).get("status") or {}).get("conditions") or []
    return any(
        condition["type"] == "Established" and condition["status"] == "True"
        for condition in conditions
    )
