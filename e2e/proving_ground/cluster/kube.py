"""Accesses a cluster as its users do: through kubectl.

This module must not depend on what is installed in the cluster.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]
WAIT_SECONDS = 60  # timeout of a command in seconds


class RefusedError(Exception):
    """Raised if kubectl or the API server failed the request. The text is its output."""


@dataclass(frozen=True, slots=True)
class Kube:
    """A cluster, and the default namespace of commands.

    Attributes:
        command: command that runs kubectl, such as ("kubectl",) or ("strandline-cluster",
            "kubectl").
    """

    command: tuple[str, ...]
    kubeconfig: Path
    namespace: str = "default"

    def within(self, namespace: str) -> Kube:
        """Return the same cluster, in another namespace."""
        return Kube(self.command, self.kubeconfig, namespace)

    def call(self, *words: str, given: str | None = None, timeout: float = WAIT_SECONDS) -> str:
        """Run kubectl and return its output.

        Args:
            given: standard input.
            timeout: timeout in seconds.

        Raises:
            RefusedError: if the exit code is not 0.
        """
        command = [*self.command, "--kubeconfig", str(self.kubeconfig), "-n", self.namespace]
        done = subprocess.run(
            [*command, *words],
            input=given,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if done.returncode:
            raise RefusedError(f"kubectl {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Apply objects as `kubectl apply --server-side` does."""
        bundle = {"apiVersion": "v1", "kind": "List", "items": [dict(body) for body in objects]}
        words = ("apply", "--server-side", "--force-conflicts", "-f", "-")
        self.call(*words, given=json.dumps(bundle))

    def find(self, kind: str, name: str) -> Json | None:
        """Return an object, or None if it does not exist."""
        text = self.call("get", kind, name, "-o", "json", "--ignore-not-found")
        return dict(json.loads(text)) if text.strip() else None

    def list_all(self, kind: str, selector: str = "", *options: str) -> list[Json]:
        """Return all objects of a kind with these labels."""
        chosen: Sequence[str] = ("-l", selector) if selector else ()
        return list(json.loads(self.call("get", kind, *chosen, *options, "-o", "json"))["items"])

    def create_raw(self, path: str, body: Mapping[str, Any]) -> None:
        """Post a body to a path of the API."""
        self.call("create", "--raw", path, "-f", "-", given=json.dumps(body))

    def patch(self, kind: str, name: str, change: Mapping[str, Any], *options: str) -> None:
        """Merge a change into an object."""
        words = ("patch", kind, name, "--type", "merge", "-p", json.dumps(change), *options)
        self.call(*words)

    def delete(self, kind: str, name: str, *options: str) -> None:
        """Delete an object, and do not wait until it is gone."""
        self.call("delete", kind, name, "--wait=false", "--ignore-not-found", *options)
