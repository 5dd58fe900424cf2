"""Installs KubeRay on a local node from a checkout that KubeRay's own tools have built.

    python -m proving_ground.installation.kuberay FOLDER

prints the path of the checkout, or its missing parts. This module neither builds KubeRay nor keeps
a copy. It must not depend on the Ray workloads or on the scenarios.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from proving_ground.cluster.kube import Json, Kube
from real_node.images import pack_image
from real_node.node import Node

# Paths of KubeRay's program and kustomization, which its Makefile sets.
PROGRAM = Path("ray-operator", "bin", "manager")
MANIFESTS = Path("ray-operator", "config", "default")
# Labels of the operator: the first name is from KubeRay's manifests, the second from its chart.
NAMES = "app.kubernetes.io/name in (kuberay,kuberay-operator)"
COMPONENT, OPERATOR = "app.kubernetes.io/component", "kuberay-operator"
SELECTOR = f"{NAMES},{COMPONENT}={OPERATOR}"  # selects the operator's pods
# Loaders of dynamically linked programs. The loader's path is near the beginning of an executable.
LOADERS = (b"/ld-linux", b"/ld-musl")
HEADER = 64 * 1024
# User ID of KubeRay's own image; the manifests do not contain the ID.
USER = 65532
NO_ELECTION = "--enable-leader-election=false"
PROBE = "livenessProbe"
APPLY_SECONDS, READY_SECONDS = 180, 300


class CheckoutError(Exception):
    """Raised if a folder has no usable KubeRay checkout. The message gives the reason."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """A checkout of KubeRay's repository with its built program."""

    folder: Path

    @property
    def program(self) -> Path:
        """KubeRay's statically linked program."""
        return self.folder / PROGRAM

    @property
    def manifests(self) -> Path:
        """The kustomization that installs KubeRay."""
        return self.folder / MANIFESTS


@dataclass(frozen=True, slots=True)
class KubeRay:
    """A KubeRay controller that runs in a cluster.

    Attributes:
        kube: access to the cluster, in KubeRay's namespace.
        deployment: name of the Deployment.
        version: version, such as `v1.7.0`.
    """

    kube: Kube
    deployment: str
    version: str

    def stop(self) -> None:
        """Remove KubeRay's pod and wait until it is gone."""
        self._scale(0)
        self.kube.call("wait", "--for=delete", "pod", "-l", SELECTOR, "--timeout=50s")

    def start(self) -> None:
        """Start KubeRay again."""
        self._scale(1)
        await_kuberay(self.kube, self.deployment)

    def kill(self) -> None:
        """Kill KubeRay's pod; the Deployment replaces it."""
        killed = ("pod", "-l", SELECTOR, "--grace-period=0", "--force", "--wait=false")
        self.kube.call("delete", *killed)
        await_kuberay(self.kube, self.deployment)

    def _scale(self, replicas: int) -> None:
        self.kube.call("scale", "deployment", self.deployment, f"--replicas={replicas}")


def read_checkout(folder: Path) -> Checkout:
    """Check that a folder has the required parts of KubeRay.

    Raises:
        CheckoutError: if a part is missing.
    """
    checkout = Checkout(folder.resolve())
    if not (checkout.manifests / "kustomization.yaml").is_file():
        raise CheckoutError(
            f"KUBERAY={folder} is no checkout of KubeRay: there is no {MANIFESTS} in it"
        )
    if not checkout.program.is_file():
        raise CheckoutError(
            f"KUBERAY={folder} has no {PROGRAM}: KubeRay has not been built there;"
            " its own ray-operator/DEVELOPMENT.md tells how"
        )
    with checkout.program.open("rb") as file:
        header = file.read(HEADER)
    if any(loader in header for loader in LOADERS):
        raise CheckoutError(
            f"KUBERAY={folder}: {PROGRAM} needs libraries that an image of one file lacks;"
            " build it again with CGO_ENABLED=0"
        )
    return checkout


def install_kuberay(kube: Kube, node: Node, checkout: Checkout) -> KubeRay:
    """Install KubeRay on a node from its manifests, and wait until it is running."""
    # Use `--force-conflicts`, because a repeated installation must reset the fields that
    # `fit_to_node` changes.
    words = ("apply", "--server-side", "--force-conflicts", "-k", str(checkout.manifests))
    kube.call(*words, timeout=APPLY_SECONDS)
    (deployment,) = list_deployments(kube)
    metadata = deployment["metadata"]
    image, command = read_container(deployment)
    with tempfile.NamedTemporaryFile(suffix=".tar") as archive:
        program = {command.lstrip("/"): checkout.program.read_bytes()}
        archive.write(pack_image(image, program, [command]))
        archive.flush()
        node.import_image(Path(archive.name))
    own = kube.within(metadata["namespace"])
    own.patch("deployment", metadata["name"], fit_to_node(deployment))
    await_kuberay(own, metadata["name"])
    return KubeRay(own, metadata["name"], find_version(checkout.folder, image))


def find_kuberay(kube: Kube) -> KubeRay | None:
    """Return the KubeRay that is installed in a cluster, or None if there is not exactly one."""
    found = list_deployments(kube)
    if len(found) != 1:
        return None
    metadata, (image, _) = found[0]["metadata"], read_container(found[0])
    return KubeRay(kube.within(metadata["namespace"]), metadata["name"], read_tag(image))


def list_deployments(kube: Kube) -> list[Json]:
    """Return KubeRay's Deployments in all namespaces."""
    found = kube.list_all("deployments", NAMES, "--all-namespaces")
    return [deployment for deployment in found if _read_component(deployment) == OPERATOR]


def _read_component(deployment: Json) -> str:
    """Return the component label of the Deployment's pod. KubeRay's chart labels only the pod."""
    labels = deployment["spec"]["template"].get("metadata", {}).get("labels") or {}
    return str(labels.get(COMPONENT, ""))


def await_kuberay(kube: Kube, deployment: str) -> None:
    """Wait until KubeRay's pod is ready."""
    words = ("rollout", "status", f"deployment/{deployment}", f"--timeout={READY_SECONDS}s")
    kube.call(*words, timeout=READY_SECONDS + 10)


def read_container(deployment: Json) -> tuple[str, str]:
    """Return the container's image and the first word of its command."""
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    return str(container["image"]), str(container["command"][0])


def read_tag(image: str) -> str:
    """Return the tag of an image reference, or `unknown` if it has no tag."""
    name = image.partition("@")[0].rpartition("/")[2]
    return name.partition(":")[2] or "unknown"


def fit_to_node(deployment: Json) -> Json:
    """Return a merge patch that adapts a Deployment to a local node."""
    spec = deployment["spec"]["template"]["spec"]
    # Remove the probe and the CPU limit. A tenth of a core is too little if Ray starts on the same
    # two cores: KubeRay's clients would time out, and its probes would kill it.
    container = {name: value for name, value in spec["containers"][0].items() if name != PROBE}
    resources = container.get("resources") or {}
    limits = {**(resources.get("limits") or {})}
    limits.pop("cpu", None)
    container["resources"] = {**resources, "limits": limits}
    # Skip the leader election, because only one instance runs here, and because KubeRay exits if it
    # can't renew a lease in time.
    container["args"] = [*(container.get("args") or ()), NO_ELECTION]
    # Set the user, because the image consists of one file and names no user. Without a user, the
    # kubelet would not start it.
    security = {**(spec.get("securityContext") or {}), "runAsUser": USER}
    return {
        "spec": {"template": {"spec": {"securityContext": security, "containers": [container]}}}
    }


def find_version(folder: Path, image: str) -> str:
    """Return KubeRay's version: from git for a checkout, otherwise the image's tag."""
    if (folder / ".git").exists():
        words = ("git", "-C", str(folder), "describe", "--tags", "--match", "v*")
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.strip()
    return read_tag(image)


def main(arguments: Sequence[str]) -> int:
    """Print the path of the checkout in a folder, or its missing parts."""
    try:
        print(read_checkout(Path(arguments[0])).folder)
    except CheckoutError as error:
        print(f"strandline: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
