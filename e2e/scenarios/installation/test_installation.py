"""The chart is installed on a cluster with nodes, as docs/install.md describes."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from proving_ground.installation.chart import RELEASE, SYSTEM, Installation

GUIDE = Path(__file__).parents[3] / "docs" / "install.md"
BLOCK = re.compile(r"^```sh nodes\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECONDS = 240


@pytest.mark.alone
def test_it_is_well_as_the_guide_tells_it(installation: Installation, tmp_path: Path) -> None:
    programs = {"helm": str(installation.helm), "kubectl": shlex.join(installation.kube.command)}
    for name, command in programs.items():
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
        program.chmod(0o755)
    (commands,) = BLOCK.findall(GUIDE.read_text(encoding="utf-8"))
    placed = commands.replace("--namespace strandline", f"--namespace {SYSTEM}")
    assert RELEASE in placed
    done = subprocess.run(
        ["/bin/sh", "-euc", placed],
        env=os.environ
        | {
            "KUBECONFIG": str(installation.kube.kubeconfig),
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{installation.describe()}"
    assert "Succeeded" in done.stdout
