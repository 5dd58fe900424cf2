"""A KubeRay from a checkout in which it was built by its own means, brought onto a node of ours.

    python -m proving_ground.installation.kuberay FOLDER

says where the checkout is, or what is missing in it. Nothing here builds KubeRay, and nothing of
it is kept. This room must not know what runs on Ray, nor what is played.
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

# Where KubeRay's own Makefile puts its program, and its kustomization.
PROGRAM = Path("ray-operator", "bin", "manager")
MANIFESTS = Path("ray-operator", "config", "default")
# The name that its manifests give to what they make, and the one that its chart does.
NAMES = "app.kubernetes.io/name in (kuberay,kuberay-operator)"
COMPONENT, OPERATOR = "app.kubernetes.io/component", "kuberay-operator"
SELECTOR = f"{NAMES},{COMPONENT}={OPERATOR}"  # label of its pods
# Loaders of programs that were linked to libraries; the name stands near a program's beginning.
LOADERS = (b"/ld-linux", b"/ld-musl")
HEADER = 64 * 1024
# As its own image says; the manifests want a number, and leave it to the image.
USER = 65532
NO_ELECTION = "--enable-leader-election=false"
PROBE = "livenessProbe"
APPLY_SECONDS, READY_SECONDS = 180, 300


class CheckoutError(Exception):
    """There is no KubeRay to be had from a folder; the text says why, in one sentence."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """A checkout of KubeRay's repository, with its program in it."""

    folder: Path

    @property
    def program(self) -> Path:
        """The program, static."""
        return self.folder / PROGRAM

    @property
    def manifests(self) -> Path:
        """The kustomization that installs it."""
        return self.folder / MANIFESTS


@dataclass(frozen=True, slots=True)
class KubeRay:
    """A KubeRay that runs in a cluster.

    Attributes:
        kube: in its namespace.
        deployment: its name.
        version: such as `v1.7.0`.
    """

    kube: Kube
    deployment: str
    version: str

    def stop(self) -> None:
        """Take its pod away, and do not come back before it is gone."""
        self._scale(0)
        self.kube.call("wait", "--for=delete", "pod", "-l", SELECTOR, "--timeout=50s")

    def start(self) -> None:
        """Bring it back."""
        self._scale(1)
        await_kuberay(self.kube, self.deployment)

    def kill(self) -> None:
        """Kill its pod; the Deployment puts another one in its place."""
        killed = ("pod", "-l", SELECTOR, "--grace-period=0", "--force", "--wait=false")
        self.kube.call("delete", *killed)
        await_kuberay(self.kube, self.deployment)

    def _scale(self, replicas: int) -> None:
        self.kube.call("scale", "deployment", self.deployment, f"--replicas={replicas}")


def read_checkout(folder: Path) -> Checkout:
    """Look whether a folder has what is needed of KubeRay.

    Raises:
        CheckoutError: it has not.
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
    """Install it on a node, as its manifests say, and wait until it runs."""
    # Parts that were fitted to a node before, on which it is installed again, are fitted once more.
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
    """Return the KubeRay that a cluster came with.

    None where it can't be told from other things.
    """
    found = list_deployments(kube)
    if len(found) != 1:
        return None
    metadata, (image, _) = found[0]["metadata"], read_container(found[0])
    return KubeRay(kube.within(metadata["namespace"]), metadata["name"], read_tag(image))


def list_deployments(kube: Kube) -> list[Json]:
    """Return the Deployments of KubeRay in all namespaces."""
    found = kube.list_all("deployments", NAMES, "--all-namespaces")
    return [deployment for deployment in found if _read_component(deployment) == OPERATOR]


def _read_component(deployment: Json) -> str:
    """Return which part of KubeRay it is; its chart says so on the pod alone."""
    labels = deployment["spec"]["template"].get("metadata", {}).get("labels") or {}
    return str(labels.get(COMPONENT, ""))


def await_kuberay(kube: Kube, deployment: str) -> None:
    """Wait until its pod is ready."""
    words = ("rollout", "status", f"deployment/{deployment}", f"--timeout={READY_SECONDS}s")
    kube.call(*words, timeout=READY_SECONDS + 10)


def read_container(deployment: Json) -> tuple[str, str]:
    """Image and first word of the command of its container."""
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    return str(container["image"]), str(container["command"][0])


def read_tag(image: str) -> str:
    """Return the tag of an image; `unknown` where it has none."""
    name = image.partition("@")[0].rpartition("/")[2]
    return name.partition(":")[2] or "unknown"


def fit_to_node(deployment: Json) -> Json:
    """Return what of a Deployment is to be different on a node here, as a merge patch."""
    spec = deployment["spec"]["template"]["spec"]
    # A tenth of a core does not do where Ray starts beside it on two cores: its own clients would
    # give up, and its probes would end it.
    container = {name: value for name, value in spec["containers"][0].items() if name != PROBE}
    resources = container.get("resources") or {}
    limits = {**(resources.get("limits") or {})}
    limits.pop("cpu", None)
    container["resources"] = {**resources, "limits": limits}
    # KubeRay ends itself where it can't renew a lease in time, and there is only one of it.
    container["args"] = [*(container.get("args") or ()), NO_ELECTION]
    # The image is made of one file and names no user, so the kubelet would not start it.
    security = {**(spec.get("securityContext") or {}), "runAsUser": USER}
    return {
        "spec": {"template": {"spec": {"securityContext": security, "containers": [container]}}}
    }


def find_version(folder: Path, image: str) -> str:
    """Return the version: as git tells it of a checkout, else the tag in the manifests."""
    if (folder / ".git").exists():
        words = ("git", "-C", str(folder), "describe", "--tags", "--match", "v*")
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.strip()
    return read_tag(image)


def main(arguments: Sequence[str]) -> int:
    """Print where the checkout of a folder is, or say what is missing in it."""
    try:
        print(read_checkout(Path(arguments[0])).folder)
    except CheckoutError as error:
        print(f"strandline: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
