"""Access to a running node, for a command that runs on it.

    node = Node.find()
    node.kubectl("get", "pods")

This module must not depend on how the node was started.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from real_node import layout
from real_node.errors import NodeError

WAIT_SECONDS = 60  # default timeout in seconds
PAUSE = 0.1
# Kinds of objects that `collect` saves beside the logs, for the analysis of a failure.
KINDS = (
    "nodes,namespaces,pods,jobs,deployments,services,events"
    ",persistentvolumes,persistentvolumeclaims"
)


@dataclass(frozen=True, slots=True)
class Node:
    """A real node. This process is in its namespaces.

    Attributes:
        folder: folder of the node; its logs remain after the node ends.
        binary: single binary with all Kubernetes programs.
    """

    folder: Path
    binary: Path

    @classmethod
    def find(cls, environment: Mapping[str, str] = os.environ) -> Node:
        """Return the node on which this process runs.

        Raises:
            NodeError: if this process does not run on a node.
        """
        folder, binary = (
            environment.get(name) for name in (layout.FOLDER_VARIABLE, layout.BINARY_VARIABLE)
        )
        if not folder or not binary:
            raise NodeError("this runs on no node; start it by `python -m real_node up`")
        return cls(Path(folder), Path(binary))

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.folder / layout.KUBECONFIG

    @property
    def logs(self) -> Path:
        """Folder of all logs: a file per program, and container logs in `pods`."""
        return self.folder / layout.LOG_FOLDER

    @property
    def volumes(self) -> Path:
        """Folder for `hostPath` volumes; empty at the start and removed at the end."""
        return self.folder / layout.VOLUMES

    def kubectl(self, *arguments: str, stdin: str = "", timeout: float = WAIT_SECONDS) -> str:
        """Run kubectl as administrator and return its output.

        Raises:
            NodeError: if kubectl failed, or on a timeout after `timeout` seconds.
        """
        ours = (f"--kubeconfig={self.kubeconfig}", f"--cache-dir={layout.KUBECTL_CACHE}")
        command = (str(self.binary), "kubectl", *ours, *arguments)
        return run(command, stdin=stdin, timeout=timeout)

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Apply objects with server-side apply."""
        text = "\n---\n".join(json.dumps(each) for each in objects)
        self.kubectl("apply", "--server-side", "--filename=-", stdin=text)

    def read(self, kind: str, name: str, namespace: str = "default") -> dict[str, Any]:
        """Return an object, or an empty one if it does not exist."""
        words = ("get", kind, name, f"--namespace={namespace}")
        text = self.kubectl(*words, "--output=json", "--ignore-not-found")
        answer: dict[str, Any] = json.loads(text) if text.strip() else {}
        return answer

    def import_image(self, archive: Path) -> None:
        """Import an archive (OCI or Docker format) into containerd, so that no image is pulled."""
        settings = (self.folder / layout.STATE / layout.SETTINGS / "containerd.toml").read_text()
        snapshotter = "native" if 'snapshotter = "native"' in settings else "overlayfs"
        ctr = ("ctr", f"--address={layout.CONTAINERD}", "--namespace=k8s.io")
        words = ("images", "import", f"--snapshotter={snapshotter}", str(archive.resolve()))
        run((*ctr, *words), timeout=10 * WAIT_SECONDS)

    def add_resource(self, name: str, amount: int) -> None:
        """Make the node offer an extended resource, such as `example.com/slot`."""
        key = name.replace("/", "~1")
        patch = [{"op": "add", "path": f"/status/capacity/{key}", "value": str(amount)}]
        words = ("patch", "node", layout.NODE_NAME, "--subresource=status", "--type=json")
        self.kubectl(*words, f"--patch={json.dumps(patch)}")

    def stop(self, program: str) -> None:
        """Kill a program of the node, such as `kubelet`, and keep it stopped."""
        state = self.folder / layout.STATE
        (state / layout.STOPPED / program).touch()
        wait_until(f"{program} is gone", lambda: not (state / layout.PIDS / program).exists())

    def start(self, program: str) -> None:
        """Restart a stopped program."""
        state = self.folder / layout.STATE
        (state / layout.STOPPED / program).unlink(missing_ok=True)
        wait_until(f"{program} is back", (state / layout.PIDS / program).exists)

    def stop_kubelet(self) -> None:
        """Simulate a lost node: its containers keep running, but it reports no status."""
        self.stop("kubelet")

    def start_kubelet(self) -> None:
        """Restart the kubelet of a lost node, which keeps the resources from `add_resource`."""
        self.start("kubelet")

    def collect(self) -> Path:
        """Write all objects to files beside the logs, and return the folder."""
        for suffix, words in (("yaml", ("--output=yaml",)), ("txt", ("--output=wide",))):
            text = self.kubectl("get", KINDS, "--all-namespaces", *words)
            (self.logs / f"objects.{suffix}").write_text(text, encoding="utf-8")
        return self.logs


def wait_until(what: str, is_so: Callable[[], bool], timeout: float = WAIT_SECONDS) -> None:
    """Wait until a condition holds.

    Raises:
        NodeError: on a timeout after `timeout` seconds.
    """
    end = time.monotonic() + timeout
    while not is_so():
        if time.monotonic() > end:
            raise NodeError(f"waited {timeout:.0f} s in vain until {what}")
        time.sleep(PAUSE)


def run(command: tuple[str, ...], *, stdin: str = "", timeout: float = WAIT_SECONDS) -> str:
    """Run a short program and return its output.

    Raises:
        NodeError: if the program failed, or on a timeout after `timeout` seconds.
    """
    name = " ".join(part for part in command[:8] if not part.startswith(("--kube", "--cache")))
    try:
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, check=False, timeout=timeout
        )
    except subprocess.TimeoutExpired:
        raise NodeError(f"{name} took more than {timeout:.0f} s") from None
    if done.returncode:
        raise NodeError(f"{name}: {done.stderr.strip()}")
    return done.stdout
