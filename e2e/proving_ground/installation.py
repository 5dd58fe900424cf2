"""Strandline in a cluster, installed as users do: from its chart.

On a node that was brought up here, the images are imported from their archives, and where nobody
runs RayJobs the stand-in does. This room must not know what is played on it.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from images.names import BASE, Images, find_images
from proving_ground.kube import Json, Kube
from proving_ground.waiting import wait_for
from real_node.node import Node

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "strandline"
SMALL_DEFINITIONS = ROOT / "tests" / "apiserver" / "crds"
SHARED_DEFINITIONS = ROOT.parent / "shared" / "crds" / "kuberay"
DEFINITIONS = "STRANDLINE_KUBERAY_CRDS"
HELM = "STRANDLINE_HELM"
IMAGE_BASE = "STRANDLINE_IMAGE_BASE"
SYSTEM = "strandline-system"
RELEASE = "strandline"
METRICS_PORT = 9090
READY_SECONDS = 180
# So that a scenario takes seconds where an installation takes minutes.
HASTE: Json = {
    "pullInterval": "2s",
    "statusInterval": "2s",
    "resync": "20s",
    "submitter": "20s",
    "driverEnd": "20s",
    "imagePull": "20s",
    "retriesPerMinute": 600,
}


@dataclass(frozen=True, slots=True)
class Installation:
    """Where it is installed, and from what.

    Attributes:
        node: that was brought up here; None where the cluster existed.
        helm: the program.
        values: of the chart.
    """

    kube: Kube
    node: Node | None
    helm: Path
    values: Mapping[str, object]

    @property
    def volumes(self) -> Path:
        """Folder of the node for volumes."""
        assert self.node is not None, (
            "only a node that was brought up here has folders to look into"
        )
        return self.node.volumes

    @property
    def runtime_image(self) -> str:
        """The image of Ray pods, from the operator's own arguments."""
        container = self.operator_pod["spec"]["containers"][0]
        flag = next(one for one in container["args"] if one.startswith("--runtime-image="))
        return str(flag.partition("=")[2])

    @property
    def operator_pod(self) -> Json:
        """The pod of the operator that is not on its way out."""
        chosen = "app.kubernetes.io/component=operator"
        pods = self.kube.within(SYSTEM).list_all("pods", chosen)
        alive = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        assert alive, "the operator has no pod"
        return alive[0]

    def read_metrics(self) -> dict[str, float]:
        """The operator's numbers, by name with labels."""
        name = self.operator_pod["metadata"]["name"]
        place = f"/api/v1/namespaces/{SYSTEM}/pods/{name}:{METRICS_PORT}/proxy/metrics"
        lines = self.kube.say("get", "--raw", place).splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def upgrade(self, **changes: object) -> None:
        """Install the chart, or upgrade it with other values, and wait until it is ready."""
        self.run_helm(
            "upgrade",
            RELEASE,
            str(CHART),
            "--install",
            "--create-namespace",
            "--wait",
            f"--timeout={READY_SECONDS}s",
            "--values=-",
            given=json.dumps({**self.values, **changes}),
        )

    def run_helm(self, *words: str, given: str = "") -> str:
        """What Helm prints."""
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
        assert done.returncode == 0, f"helm {' '.join(words)}: {done.stderr}\n{self.tell()}"
        return done.stdout

    def tell(self) -> str:
        """What the operator is about, for who looks into a failure."""
        cluster = self.kube.within(SYSTEM)
        words = ("logs", "-l", "app.kubernetes.io/component=operator", "--tail=60")
        return "\n".join([cluster.say("get", "pods,events", "-o", "wide"), cluster.say(*words)])


@contextmanager
def install(folder: Path) -> Iterator[Installation]:
    """Install everything, on the node we are on or in the cluster of KUBECONFIG.

    Args:
        folder: for logs.
    """
    kube, node = find_cluster()
    with ExitStack() as stack:
        values: Json = {"settings": HASTE}
        if node is not None:
            values |= import_images(node)
        if serve_rayjobs(kube):
            stack.enter_context(run_standin(kube, folder))
        installation = Installation(kube, node, Path(os.environ[HELM]), values)
        installation.upgrade()
        yield installation


def find_cluster() -> tuple[Kube, Node | None]:
    """The node we are on, or else the cluster that KUBECONFIG names."""
    kubeconfig = Path(os.environ["KUBECONFIG"])
    if "STRANDLINE_NODE" not in os.environ:
        return Kube(("kubectl",), kubeconfig), None
    node = Node.find()
    return Kube((str(node.binary), "kubectl"), node.kubeconfig), node


def import_images(node: Node) -> Json:
    """Give the node both images; the chart's values that name them."""
    images = find_built()
    for target in ("operator", "runtime"):
        node.import_image(images.find_archive(target))
    return {"image": {"tag": images.tag}, "runtimeImage": {"tag": images.tag}}


def find_built() -> Images:
    """The images of the sources as they are."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    images = find_images(ROOT, cache, os.environ.get(IMAGE_BASE) or BASE, platform.machine())
    assert images.complete, f"there are no images in {images.folder}: make images"
    return images


def serve_rayjobs(kube: Kube) -> bool:
    """Install KubeRay's definitions where there are none; whether the stand-in is needed."""
    if kube.find("crd", "rayjobs.ray.io") is not None:
        return False
    named = os.environ.get(DEFINITIONS)
    folder = Path(named) if named else SHARED_DEFINITIONS
    paths = [folder / f"ray.io_{plural}.yaml" for plural in ("rayclusters", "rayjobs")]
    if not named and not all(path.is_file() for path in paths):
        paths = sorted(SMALL_DEFINITIONS.glob("*.yaml"))
    for path in paths:
        kube.say("apply", "--server-side", "-f", str(path))
    for plural in ("rayclusters", "rayjobs"):
        words = ("wait", "--for=condition=Established", f"crd/{plural}.ray.io", "--timeout=30s")
        kube.say(*words)
    return True


@contextmanager
def run_standin(kube: Kube, folder: Path) -> Iterator[None]:
    """Run the stand-in for KubeRay as a process beside the node."""
    log = folder / "kuberay-standin.log"
    command = [sys.executable, "-m", "kuberay_standin", "--kubeconfig", str(kube.kubeconfig)]
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, cwd=ROOT)
        try:
            wait_for(
                "the stand-in for KubeRay runs",
                lambda: log.stat().st_size or process.poll() is not None,
                30,
            )
            assert process.poll() is None, log.read_text(encoding="utf-8")
            yield
        finally:
            process.terminate()
            process.wait(30)
