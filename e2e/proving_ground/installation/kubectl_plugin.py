"""Runs `kubectl strandline` on a ground, with the ground's kubectl."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from proving_ground.cluster.kube import Kube


class Plugin:
    """Calls the plugin in a folder that also contains its kubectl."""

    def __init__(self, kube: Kube, folder: Path) -> None:
        self._options = ("-n", kube.namespace, "--kubeconfig", str(kube.kubeconfig))
        self._folder = folder
        kubectl = folder / "kubectl"
        kubectl.write_text(f'#!/bin/sh\nexec {" ".join(kube.command)} "$@"\n')
        kubectl.chmod(0o755)

    def ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command and return the completed process."""
        code = "from strandline.__main__ import main_on_cluster; main_on_cluster()"
        return subprocess.run(
            [sys.executable, "-c", code, *words, *self._options],
            cwd=self._folder,
            env={**os.environ, "PATH": f"{self._folder}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
