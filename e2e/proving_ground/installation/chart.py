"""Installs Strandline in a cluster as users do: from its chart.

On a local node, images are imported from their archives. This module must not depend on the
scenarios or on the controller that runs RayJobs.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from images.names import BASE, TARGETS, Images, find_images
from proving_ground.cluster.kube import Json, Kube
from proving_ground.installation.rayjobs import Carrier, serve_rayjobs
from real_node.node import Node

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts" / "strandline"
HELM = "STRANDLINE_HELM"
IMAGE_BASE = "STRANDLINE_IMAGE_BASE"
IMAGE_TAG = "STRANDLINE_IMAGE_TAG"
IMAGE_PREFIX = "STRANDLINE_IMAGE_PREFIX"
SYSTEM = "strandline-system"
RELEASE = "strandline"
METRICS_PORT = 9090
READY_SECONDS = 180
# Short intervals, so that a scenario takes seconds and not minutes.
HASTE: Json = {
    "pullInterval": "2s",
    "statusInterval": "2s",
    "resync": "20s",
    "submitter": "20s",
    "outcome": "20s",
    "imagePull": "20s",
    "retriesPerMinute": 600,
}


@dataclass(frozen=True, slots=True)
class Installation:
    """An installation of Strandline in a cluster.

    Attributes:
        node: local node, or None if the cluster existed before.
        helm: path of the Helm program.
        values: values of the chart.
        carrier: controller that runs RayJobs, or None if unknown.
    """

    kube: Kube
    node: Node | None
    helm: Path
    values: Mapping[str, object]
    carrier: Carrier | None

    @property
    def runtime_image(self) -> str:
        """The image of Ray pods, read from the operator's own arguments."""
        container = self.operator_pod["spec"]["containers"][0]
        flag = next(arg for arg in container["args"] if arg.startswith("--runtime-image="))
        return str(flag.partition("=")[2])

    @property
    def operator_pod(self) -> Json:
        """The operator's pod. A terminating pod does not count."""
        chosen = "app.kubernetes.io/component=operator"
        pods = self.kube.within(SYSTEM).list_all("pods", chosen)
        alive = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        assert alive, "the operator has no pod"
        return alive[0]

    def read_metrics(self) -> dict[str, float]:
        """Return the operator's metrics, by name with labels."""
        name = self.operator_pod["metadata"]["name"]
        path = f"/api/v1/namespaces/{SYSTEM}/pods/{name}:{METRICS_PORT}/proxy/metrics"
        lines = self.kube.call("get", "--raw", path).splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def upgrade(self, chart: Path = CHART, **changes: object) -> None:
        """Install a chart, or upgrade it with other values, and wait until it is ready."""
        self.run_helm(
            "upgrade",
            RELEASE,
            str(chart),
            "--install",
            "--create-namespace",
            "--wait",
            f"--timeout={READY_SECONDS}s",
            "--values=-",
            given=json.dumps({**self.values, **changes}),
        )

    def remove(self) -> None:
        """Uninstall the chart and remove its namespace."""
        self.run_helm("uninstall", RELEASE, "--ignore-not-found", "--wait")
        self.kube.delete("namespace", SYSTEM)

    def run_helm(self, *words: str, given: str = "") -> str:
        """Run Helm and return its output."""
        command = [str(self.helm), *words, "--namespace", SYSTEM]
        environment = os.environ | {"KUBECONFIG": str(self.kube.kubeconfig)}
        done = subprocess.run(
            command,
            input=given,
            capture_output=True,
            text=True,
            env=environment,
            timeout=READY_SECONDS + 60,
            check=False,
        )
        assert done.returncode == 0, f"helm {' '.join(words)}: {done.stderr}\n{self.describe()}"
        return done.stdout

    def describe(self) -> str:
        """Describe the operator's state, for the analysis of a failure."""
        cluster = self.kube.within(SYSTEM)
        words = ("logs", "-l", "app.kubernetes.io/component=operator", "--tail=60")
        return "\n".join([cluster.call("get", "pods,events", "-o", "wide"), cluster.call(*words)])


@contextmanager
def install(folder: Path) -> Iterator[Installation]:
    """Install everything on the current local node or in the cluster of KUBECONFIG.

    An existing cluster is restored afterwards, except for Strandline's CRDs, because their removal
    would remove every pipeline of the cluster.

    Args:
        folder: folder for logs.
    """
    kube, node = find_cluster()
    with ExitStack() as stack:
        values: Json = {"settings": HASTE, **import_images(node)}
        carrier = stack.enter_context(serve_rayjobs(kube, node, folder))
        installation = Installation(kube, node, Path(os.environ[HELM]), values, carrier)
        if node is None:
            stack.callback(installation.remove)
        installation.upgrade()
        yield installation


def find_cluster() -> tuple[Kube, Node | None]:
    """Return the current local node. If there is none, return the cluster of KUBECONFIG."""
    kubeconfig = Path(os.environ["KUBECONFIG"])
    if "STRANDLINE_NODE" not in os.environ:
        return Kube(("kubectl",), kubeconfig), None
    node = Node.find()
    return Kube((str(node.binary), "kubectl"), node.kubeconfig), node


def import_images(node: Node | None) -> Json:
    """Import both images into a local node and return the chart's values.

    Other clusters must already have the images, as `strandline/operator:TAG` or from the registry
    in STRANDLINE_IMAGE_PREFIX.
    """
    tag = os.environ.get(IMAGE_TAG)
    images = find_tagged(tag) if tag else find_built(ROOT)
    if node is not None:
        assert images.complete, f"there are no images in {images.folder}: make images"
        for target in TARGETS:
            node.import_image(images.find_archive(target))
    return name_images(images)


def name_images(images: Images) -> Json:
    """Return the chart values that name both images."""
    prefix = os.environ.get(IMAGE_PREFIX) or "strandline"
    operator, runtime = (
        {"repository": f"{prefix}/{target}", "tag": images.tag} for target in TARGETS
    )
    return {"image": operator, "runtimeImage": runtime}


def find_built(root: Path) -> Images:
    """Return the images of the current sources under `root`."""
    return find_images(root, find_cache(), os.environ.get(IMAGE_BASE) or BASE, platform.machine())


def find_tagged(tag: str) -> Images:
    """Return the images with a tag."""
    return Images(tag, find_cache() / "strandline" / f"images-{tag}", "", platform.machine())


def find_cache() -> Path:
    """Return the folder where build results are kept for later runs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
