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

from images.names import BASE, TARGETS, Images, find_images
from proving_ground.kube import Json, Kube
from proving_ground.waiting import wait_for
from real_node.node import Node

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "strandline"
SMALL_DEFINITIONS = ROOT / "tests" / "apiserver" / "crds"
SHARED_DEFINITIONS = ROOT.parent / "shared" / "crds" / "kuberay"
KINDS = ("rayclusters", "rayjobs")
STANDIN_LABEL = "strandline.dev/kuberay-standin"
DEFINITIONS = "STRANDLINE_KUBERAY_CRDS"
HELM = "STRANDLINE_HELM"
IMAGE_BASE = "STRANDLINE_IMAGE_BASE"
IMAGE_TAG = "STRANDLINE_IMAGE_TAG"
IMAGE_PREFIX = "STRANDLINE_IMAGE_PREFIX"
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
    "outcome": "20s",
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

    def remove(self) -> None:
        """Take the chart out again, and its namespace."""
        self.run_helm("uninstall", RELEASE, "--ignore-not-found", "--wait")
        self.kube.delete("namespace", SYSTEM)

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

    A cluster that was there before is left as it was, but for our definitions: whoever removes
    those removes every pipeline of the cluster.

    Args:
        folder: for logs.
    """
    kube, node = find_cluster()
    with ExitStack() as stack:
        values: Json = {"settings": HASTE, **import_images(node)}
        if serve_rayjobs(kube):
            if node is None:
                stack.callback(drop_rayjobs, kube)
            stack.enter_context(run_standin(kube, folder))
        installation = Installation(kube, node, Path(os.environ[HELM]), values)
        if node is None:
            stack.callback(installation.remove)
        installation.upgrade()
        yield installation


def find_cluster() -> tuple[Kube, Node | None]:
    """The node we are on, or else the cluster that KUBECONFIG names."""
    kubeconfig = Path(os.environ["KUBECONFIG"])
    if "STRANDLINE_NODE" not in os.environ:
        return Kube(("kubectl",), kubeconfig), None
    node = Node.find()
    return Kube((str(node.binary), "kubectl"), node.kubeconfig), node


def import_images(node: Node | None) -> Json:
    """The chart's values that name both images, which a node that was brought up here is given.

    To another cluster they must have been given before, as `strandline/operator:TAG` or, where
    STRANDLINE_IMAGE_PREFIX names a registry, from there.
    """
    tag = os.environ.get(IMAGE_TAG)
    images = find_tagged(tag) if tag else find_built()
    if node is not None:
        assert images.complete, f"there are no images in {images.folder}: make images"
        for target in TARGETS:
            node.import_image(images.find_archive(target))
    prefix = os.environ.get(IMAGE_PREFIX) or "strandline"
    operator, runtime = (
        {"repository": f"{prefix}/{target}", "tag": images.tag} for target in TARGETS
    )
    return {"image": operator, "runtimeImage": runtime}


def find_built() -> Images:
    """The images of the sources as they are."""
    return find_images(ROOT, _find_cache(), os.environ.get(IMAGE_BASE) or BASE, platform.machine())


def find_tagged(tag: str) -> Images:
    """The images of a tag."""
    return Images(tag, _find_cache() / "strandline" / f"images-{tag}", "", platform.machine())


def _find_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def serve_rayjobs(kube: Kube) -> bool:
    """Install KubeRay's definitions where there are none; whether the stand-in is needed."""
    there = kube.find("crd", "rayjobs.ray.io")
    if there is not None:
        return STANDIN_LABEL in there["metadata"].get("labels", {})
    named = os.environ.get(DEFINITIONS)
    folder = Path(named) if named else SHARED_DEFINITIONS
    paths = [folder / f"ray.io_{plural}.yaml" for plural in KINDS]
    if not named and not all(path.is_file() for path in paths):
        paths = sorted(SMALL_DEFINITIONS.glob("*.yaml"))
    for path in paths:
        kube.say("apply", "--server-side", "-f", str(path))
    names = [f"{plural}.ray.io" for plural in KINDS]
    kube.say("label", "crd", *names, f"{STANDIN_LABEL}=true")
    wait_for("RayJobs are known", lambda: all(_is_served(kube, name) for name in names), 30)
    return True


def drop_rayjobs(kube: Kube) -> None:
    """Remove the definitions that were installed for the stand-in."""
    for plural in KINDS:
        kube.delete("crd", f"{plural}.ray.io")


def _is_served(kube: Kube, name: str) -> bool:
    conditions = ((kube.find("crd", name) or {}).get("status") or {}).get("conditions") or []
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


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
