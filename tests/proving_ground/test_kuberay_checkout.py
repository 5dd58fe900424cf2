"""A separately built KubeRay: found in its checkout, adapted to a node, and named by version."""

from __future__ import annotations

import copy
import io
import json
import shutil
import subprocess
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from proving_ground.cluster.kube import Json, Kube
from proving_ground.installation.kuberay import (
    MANIFESTS,
    PROGRAM,
    CheckoutError,
    KubeRay,
    find_kuberay,
    find_version,
    fit_to_node,
    install_kuberay,
    main,
    read_checkout,
    read_tag,
)
from real_node.node import Node

GIT = shutil.which("git") or "git"
STATIC, DYNAMIC = b"\x7fELF static", b"\x7fELF /lib64/ld-linux-x86-64.so.2"
IMAGE = "quay.io/kuberay/operator:v1.7.0"
# The relevant parts of KubeRay's Deployment.
DEPLOYMENT: Json = {
    "metadata": {"name": "kuberay-operator", "namespace": "rays"},
    "spec": {
        "template": {
            "metadata": {"labels": {"app.kubernetes.io/component": "kuberay-operator"}},
            "spec": {
                "securityContext": {"runAsNonRoot": True},
                "containers": [
                    {
                        "name": "kuberay-operator",
                        "image": IMAGE,
                        "command": ["/manager"],
                        "args": ["--feature-gates=A=true"],
                        "livenessProbe": {"httpGet": {"path": "/metrics", "port": "http"}},
                        "readinessProbe": {"httpGet": {"path": "/metrics", "port": "http"}},
                        "resources": {
                            "limits": {"cpu": "100m", "memory": "512Mi"},
                            "requests": {"cpu": "100m", "memory": "512Mi"},
                        },
                    }
                ],
            },
        }
    },
}
# A kubectl that records its calls and lists the given Deployments.
KUBECTL = """
echo "$@" >> "$(dirname "$0")/called"
case "$*" in *"get deployments"*) cat "$(dirname "$0")/deployments" ;; esac
"""


@dataclass(frozen=True, slots=True)
class ListeningNode(Node):
    """A node that imports images and keeps their bytes."""

    taken: list[bytes] = field(default_factory=list)

    def import_image(self, archive: Path) -> None:
        self.taken.append(archive.read_bytes())


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a folder with the files of a checkout in which KubeRay was built."""
    folder = tmp_path / "kuberay"
    for path, content in ((MANIFESTS / "kustomization.yaml", b"resources: []"), (PROGRAM, STATIC)):
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_bytes(content)
    return folder


@pytest.fixture
def kube(tmp_path: Path) -> Kube:
    script = tmp_path / "kubectl"
    script.write_text(KUBECTL, encoding="utf-8")
    tell_deployments(tmp_path, DEPLOYMENT)
    return Kube(("sh", str(script)), tmp_path / "kubeconfig")


def tell_deployments(folder: Path, *found: Json) -> None:
    (folder / "deployments").write_text(json.dumps({"items": found}), encoding="utf-8")


def list_calls(folder: Path) -> list[str]:
    """Return the kubectl calls, without the common prefix."""
    lines = (folder / "called").read_text(encoding="utf-8").splitlines()
    return [line.partition(" -n ")[2] for line in lines]


def read_layer(image: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(image)) as archive:
        layer = archive.extractfile("layer.tar")
        assert layer is not None
        with tarfile.open(fileobj=layer) as files:
            return {name: files.extractfile(name).read() for name in files.getnames()}  # type: ignore[union-attr]


def test_a_checkout_is_found(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(checkout)]) == 0
    assert capsys.readouterr().out == f"{checkout}\n"


@pytest.mark.parametrize(
    ("path", "content", "output"),
    [
        (MANIFESTS / "kustomization.yaml", None, "is no checkout of KubeRay"),
        (PROGRAM, None, "has not been built there; its own ray-operator/DEVELOPMENT.md tells how"),
        (PROGRAM, DYNAMIC, "build it again with CGO_ENABLED=0"),
    ],
)
def test_a_missing_part_is_reported_in_one_sentence(
    checkout: Path,
    path: Path,
    content: bytes | None,
    output: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (checkout / path).unlink()
    if content is not None:
        (checkout / path).write_bytes(content)
    assert main([str(checkout)]) == 1
    description = capsys.readouterr().err
    assert output in description
    assert description.startswith("strandline: KUBERAY=")
    assert description.count("\n") == 1
    with pytest.raises(CheckoutError, match=str(path if content else path.parent)):
        read_checkout(checkout)


def test_only_settings_for_a_small_node_are_changed() -> None:
    spec = fit_to_node(DEPLOYMENT)["spec"]["template"]["spec"]
    (given,) = DEPLOYMENT["spec"]["template"]["spec"]["containers"]
    (container,) = spec["containers"]
    assert spec["securityContext"] == {"runAsNonRoot": True, "runAsUser": 65532}
    assert container["args"] == ["--feature-gates=A=true", "--enable-leader-election=false"]
    assert container["resources"] == {
        "limits": {"memory": "512Mi"},
        "requests": {"cpu": "100m", "memory": "512Mi"},
    }
    assert given.keys() - container.keys() == {"livenessProbe"}
    kept = given.keys() - {"args", "resources", "livenessProbe"}
    assert {name: container[name] for name in kept} == {name: given[name] for name in kept}


def test_kuberay_is_installed_from_its_manifests_and_then_adapted(
    checkout: Path, kube: Kube, tmp_path: Path
) -> None:
    node = ListeningNode(tmp_path, tmp_path)
    there = install_kuberay(kube, node, read_checkout(checkout))
    assert there == KubeRay(kube.within("rays"), "kuberay-operator", "v1.7.0")
    assert [read_layer(image) for image in node.taken] == [{"manager": STATIC}]
    applied, looked, patched, awaited = list_calls(tmp_path)
    assert applied == f"default apply --server-side --force-conflicts -k {checkout / MANIFESTS}"
    assert looked.startswith("default get deployments -l app.kubernetes.io/name in (kuberay,")
    assert patched.startswith("rays patch deployment kuberay-operator --type merge -p")
    assert json.loads(patched.partition(" -p ")[2]) == fit_to_node(DEPLOYMENT)
    assert awaited.startswith("rays rollout status deployment/kuberay-operator")


def test_kuberay_can_be_removed_and_restored(kube: Kube, tmp_path: Path) -> None:
    there = KubeRay(kube, "kuberay-operator", "v1.7.0")
    there.stop()
    there.start()
    scaled, awaited, rescaled, ready = list_calls(tmp_path)
    assert scaled == "default scale deployment kuberay-operator --replicas=0"
    assert awaited.startswith("default wait --for=delete pod -l ")
    assert rescaled == "default scale deployment kuberay-operator --replicas=1"
    assert ready.startswith("default rollout status ")


def test_a_clusters_own_kuberay_is_found(kube: Kube, tmp_path: Path) -> None:
    assert find_kuberay(kube) == KubeRay(kube.within("rays"), "kuberay-operator", "v1.7.0")
    # KubeRay's chart labels only the pod with its component.
    (asked,) = list_calls(tmp_path)
    assert "component" not in asked
    others = copy.deepcopy(DEPLOYMENT)
    others["spec"]["template"]["metadata"]["labels"] = {"app.kubernetes.io/component": "apiserver"}
    tell_deployments(tmp_path, others, DEPLOYMENT)
    assert find_kuberay(kube) == KubeRay(kube.within("rays"), "kuberay-operator", "v1.7.0")
    tell_deployments(tmp_path)
    assert find_kuberay(kube) is None


@pytest.mark.parametrize(
    ("image", "tag"),
    [
        (IMAGE, "v1.7.0"),
        ("localhost:5000/operator:v1.6.2", "v1.6.2"),
        ("localhost:5000/operator", "unknown"),
        (f"operator:v1@sha256:{'0' * 64}", "v1"),
    ],
)
def test_an_image_yields_its_version(image: str, tag: str) -> None:
    assert read_tag(image) == tag


def test_a_git_tag_takes_precedence_over_the_manifests_version(tmp_path: Path) -> None:
    folder = tmp_path / "kuberay"
    folder.mkdir()
    assert find_version(folder, IMAGE) == "v1.7.0"
    author = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for words in (
        ("init", "--quiet"),
        (*author, "commit", "--quiet", "--allow-empty", "--message", "one"),
    ):
        subprocess.run((GIT, "-C", str(folder), *words), check=True)
    assert find_version(folder, IMAGE) == "v1.7.0"  # no tag
    for tag in ("ray-operator/v9", "v1.8.0"):
        subprocess.run((GIT, "-C", str(folder), "tag", tag), check=True)
    assert find_version(folder, IMAGE) == "v1.8.0"
    below = folder / "below"
    below.mkdir()
    assert find_version(below, IMAGE) == "v1.7.0"
