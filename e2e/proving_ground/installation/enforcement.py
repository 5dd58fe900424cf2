"""Enforces NetworkPolicies on a local node, and probes ports.

The local bridge between pods ignores policies. This module must not depend on the pods that the
policies select.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from proving_ground.cluster.kube import Json, Kube
from proving_ground.commands import CONFINED
from real_node import layout
from real_node.inside.programs import render
from real_node.node import Node

ROOT = Path(__file__).parents[3]
STRANGER = "stranger"
END_SECONDS = 20
_CHAINS = "KUBE-ROUTER"
_FLAGS = {
    "run-firewall": "true",
    "run-router": "false",
    "run-service-proxy": "false",
    "hostname-override": layout.NODE_NAME,
    "service-cluster-ip-range": layout.SERVICE_RANGE,
    "health-port": "0",
    "metrics-port": "0",
    "v": "1",
}
_TRY_DOORS = """
import json, socket, sys
reached = []
for port in map(int, sys.argv[2:]):
    try:
        socket.create_connection((sys.argv[1], port), 2).close()
        reached.append(port)
    except OSError:
        pass
print(json.dumps(reached))
"""
_ASK = """
import sys, urllib.error, urllib.request
url, *token = sys.argv[1:]
headers = {"Authorization": f"Bearer {token[0]}"} if token else {}
try:
    print(urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""


@contextmanager
def enforce_policies(node: Node, log: Path) -> Iterator[None]:
    """Enforce policies on this node during the block. Afterwards all ports are open again."""
    program = _build()
    flags = render({**_FLAGS, "kubeconfig": str(node.kubeconfig)})
    with log.open("w") as out:
        running = subprocess.Popen([program, *flags], stdout=out, stderr=out)
        try:
            yield
            if running.poll() is not None:
                raise AssertionError(f"it has ended: {log.read_text()[-2000:]}")
        finally:
            running.terminate()
            try:
                running.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                running.kill()
            _open_doors()


@dataclass(frozen=True, slots=True)
class Stranger:
    """A pod that belongs to no pipeline, for probes of an attempt's ports."""

    kube: Kube

    def try_doors(self, address: str, ports: Sequence[int]) -> list[int]:
        """Return the ports at an address that accept connections."""
        words = ("exec", STRANGER, "--", "python", "-c", _TRY_DOORS, address)
        answer = self.kube.call(*words, *map(str, ports))
        return [int(port) for port in json.loads(answer)]

    def ask(self, address: str, port: int, path: str, token: str = "") -> int:
        """Request a page, with a token if it is not empty, and return the HTTP status."""
        words = ("exec", STRANGER, "--", "python", "-c", _ASK, f"http://{address}:{port}{path}")
        return int(self.kube.call(*words, *([token] if token else ())))


@contextmanager
def invite_stranger(kube: Kube, image: str) -> Iterator[Stranger]:
    """Run an unrelated pod in a namespace for the duration of the block."""
    kube.apply(_render_stranger(image))
    try:
        kube.call("wait", "pod", STRANGER, "--for=condition=Ready", "--timeout=50s")
        yield Stranger(kube)
    finally:
        kube.delete("pod", STRANGER, "--grace-period=1")


def _open_doors() -> None:
    """Remove the policies' rules, because a later pod may get the same address."""
    for chain in ("INPUT", "FORWARD", "OUTPUT"):
        listed = subprocess.run(
            ["iptables", "-S", chain], check=True, capture_output=True, text=True
        ).stdout
        for rule in map(shlex.split, listed.splitlines()):
            if rule[0] == "-A" and any(word.startswith(_CHAINS) for word in rule):
                subprocess.run(["iptables", "-D", *rule[1:]], check=True)


def _build() -> str:
    command = ["make", "--silent", "--no-print-directory", "policies"]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return built.stdout.strip()


def _render_stranger(image: str) -> Json:
    container = {
        "name": STRANGER,
        "image": image,
        "command": ["sleep", "3600"],
        "securityContext": CONFINED,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": STRANGER},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
    }
