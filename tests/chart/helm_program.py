"""Runs Helm for the tests: built from its module, with its own home folders, and without a network.

The module must not depend on the content of a chart.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "strandline"
CASES = sorted((CHART / "ci").glob("*-values.yaml"))
NEEDED = "STRANDLINE_NEEDS_HELM"
ADVICE = (
    "NO HELM, so the chart was not tested: install Go 1.26 or newer and run `make helm`, which"
    " builds it once"
)
RELEASE = "strandline"
HOMES = ("CACHE", "CONFIG", "DATA")


class NoHelmError(Exception):
    """Helm is not available; the message explains how to get it."""


@dataclass(frozen=True, slots=True, eq=False)
class Helm:
    """Runs Helm with its own home folders, and optionally with a cluster."""

    program: Path
    folder: Path
    kubeconfig: Path | None = None
    variables: dict[str, str] = field(default_factory=dict)

    def with_cluster(self, kubeconfig: Path) -> Helm:
        """Return a copy of this Helm with access to a cluster."""
        return replace(self, kubeconfig=kubeconfig)

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of Helm's processes."""
        homes = {f"HELM_{kind}_HOME": str(self.folder / kind.lower()) for kind in HOMES}
        kubeconfig = str(self.kubeconfig or self.folder / "no-cluster")
        base = {"PATH": os.environ["PATH"], "HOME": str(self.folder)}
        return {**base, **homes, "KUBECONFIG": kubeconfig, **self.variables}

    def attempt(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run Helm, and return the completed process."""
        return subprocess.run(
            [self.program, *map(str, arguments)],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def run(self, *arguments: str | Path) -> str:
        """Run Helm, check that it succeeds, and return the output."""
        done = self.attempt(*arguments)
        assert done.returncode == 0, f"helm {' '.join(map(str, arguments))}: {done.stderr}"
        return done.stdout

    def render(self, *arguments: str | Path, chart: Path = CHART) -> list[Json]:
        """Return the manifests of a chart, including hooks."""
        text = self.run("template", RELEASE, chart, "--namespace", RELEASE, *arguments)
        return [document for document in yaml.safe_load_all(text) if document]


def find_helm() -> Path:
    """Return Helm's binary, and build the binary first if the environment requests this.

    Raises:
        NoHelmError: if the binary is missing or cannot be built.
    """
    if shutil.which("make") is None or shutil.which("go") is None:
        raise NoHelmError(ADVICE)
    if not os.environ.get(NEEDED) and not is_built():
        raise NoHelmError(ADVICE)
    done = make("helm")
    if done.returncode:
        raise NoHelmError(f"{ADVICE} ({done.stderr.strip()[-500:]})")
    return Path(done.stdout.splitlines()[-1])


def is_built() -> bool:
    """Return True if Helm was built on this machine before. Then finding the binary is cheap."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return any(Path(cache, "strandline").glob("helm-*/helm"))


def make(target: str) -> subprocess.CompletedProcess[str]:
    """Run a make target that prints a path."""
    command = ["make", "--silent", "--no-print-directory", target]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
