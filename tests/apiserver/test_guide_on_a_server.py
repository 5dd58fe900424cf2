"""Follows the Kubernetes guide from top to bottom on a real API server, as a reader would.

Every command runs, and must print the output in the guide. `pytest --update-golden` writes the
output into the guide, except where the guide shows only a part.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from api_server import ROOT, ApiServer, find_binary
from guide import ANY, Command, Cue, File, read_guide
from guide_cluster import GuideCluster, serve_driver
from operator_process import QUICK, OperatorProcess, run_operator
from recordings import Json

GUIDE = ROOT / "docs" / "kubernetes.md"
PATIENCE, IMPATIENCE = 180.0, 6.0


class Reader:
    """Follows the guide in a separate folder and namespace."""

    def __init__(self, server: ApiServer, cluster: GuideCluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        kubectl = folder / "kubectl"
        kubectl.write_text(f'#!/bin/sh\nexec {find_binary(print)} kubectl "$@"\n')
        kubectl.chmod(0o755)
        config: Json = yaml.safe_load(server.kubeconfig.read_text(encoding="utf-8"))
        for context in config["contexts"]:
            context["context"]["namespace"] = cluster.namespace
        (folder / "kubeconfig").write_text(yaml.safe_dump(config))
        self.environment = {
            **os.environ,
            "KUBECONFIG": str(folder / "kubeconfig"),
            "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        }

    def run(self, command: Command) -> str:
        """Run a command and return its output. The cluster ticks during queries and waits."""
        process = subprocess.Popen(
            ["/bin/sh", "-c", command.line],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        with process:
            while process.poll() is None:
                if command.is_question or command.waits:
                    self.cluster.tick()
                time.sleep(0.02)
            printed = process.stdout.read() if process.stdout else ""
        return printed.replace(self.cluster.namespace, "default")

    def follow(self, command: Command, patience: float = PATIENCE) -> str:
        """Run a command and return its final output. Repeat a query until the output fits."""
        end = time.monotonic() + patience
        printed = self.run(command)
        while command.is_question and not command.fits(printed) and time.monotonic() < end:
            printed = self.run(command)
        return printed


def follow_guide(reader: Reader, operator: OperatorProcess, *, update: bool) -> None:
    text, at = GUIDE.read_text(encoding="utf-8"), 0
    for step in read_guide(text):
        assert operator.is_alive, operator.tail
        match step:
            case File(name, body):
                (reader.folder / name).write_text(body, encoding="utf-8")
            case Cue(words):
                reader.cluster.heed(words)
            case Command(line, output):
                printed = reader.follow(step, IMPATIENCE if update else PATIENCE)
                at = text.index(f"$ {line}\n{output}", at) + len(f"$ {line}\n")
                if update and not step.fits(printed) and ANY not in output:
                    text = text[:at] + printed + text[at + len(output) :]
                    GUIDE.write_text(text, encoding="utf-8")
                    continue
                assert step.fits(printed), f"$ {line}\n{printed}\nand not\n{output}"


@pytest.mark.timeout(1800)  # the guide has many commands that wait for a cluster
def test_the_guides_commands_print_the_shown_output(
    request: pytest.FixtureRequest, api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    cluster = GuideCluster(api_server.client, namespace)
    update = bool(request.config.getoption("--update-golden"))
    with (
        serve_driver() as port,
        run_operator(
            api_server.kubeconfig,
            tmp_path,
            "--namespaces",
            namespace,
            STRANDLINE_DRIVER_PORT=str(port),
            STRANDLINE_STATUS_INTERVAL="1",
            **QUICK,
        ) as operator,
    ):
        follow_guide(Reader(api_server, cluster, tmp_path), operator, update=update)
        assert operator.stop() == 0
    assert operator.faults == []
