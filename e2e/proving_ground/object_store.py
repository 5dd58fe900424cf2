"""Runs an S3-compatible server in a pod, with its keys in a Secret and its objects in a folder.

This module must not depend on the pipelines that read the objects.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from proving_ground.cluster.kube import Json, Kube
from proving_ground.cluster.volumes import make_volume, remove_volume
from proving_ground.ground import Ground
from proving_ground.waiting import wait_for

ROOT = Path(__file__).parents[2]
NAME, PORT, MOUNT = "store", 7070, "/store"
SECRET = "store-keys"  # noqa: S105 - the name of one
SECONDS = 120
KEYS: Mapping[str, str] = {
    "AWS_ACCESS_KEY_ID": "reader",
    "AWS_SECRET_ACCESS_KEY": "known-to-tests",
    "AWS_ENDPOINT_URL": f"http://{NAME}:{PORT}",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """A running server; buckets are folders."""

    folder: Path

    def put(self, bucket: str, name: str, content: bytes) -> None:
        """Store an object."""
        path = self.folder / bucket / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (self.folder / bucket).chmod(0o777)  # the server runs as another user
        path.write_bytes(content)

    def list_objects(self, bucket: str, prefix: str) -> dict[str, str]:
        """Return the contents of the objects below a prefix, by name."""
        root = self.folder / bucket / prefix
        found = (path for path in root.rglob("*") if path.is_file())
        return {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in found}


@contextmanager
def serve_objects(ground: Ground) -> Iterator[ObjectStore]:
    """Run a server for the duration of the block."""
    assert ground.installation.node is not None, "a folder of the node is needed"
    root = ground.installation.node.volumes
    volume = make_volume(ground.kube, NAME, root)
    assert volume.folder is not None  # the volume is below `root`, so it has a folder
    shutil.copy2(_build_server(), volume.folder / "server")
    for name in ("data", "facts"):
        (volume.folder / name).mkdir()
        (volume.folder / name).chmod(0o777)
    try:
        ground.kube.apply(render_secret(SECRET, KEYS), *_render_server(ground.runtime_image))
        wait_for(
            f"pod {NAME} is ready",
            lambda: _is_ready(ground.kube),
            SECONDS,
            lambda: ground.kube.call("describe", "pod", NAME),
        )
        yield ObjectStore(volume.folder / "data")
    finally:
        ground.kube.delete("pod", NAME)
        remove_volume(ground.kube, NAME, root)


def render_secret(name: str, values: Mapping[str, str]) -> Json:
    """Render a Secret with the keys as environment variables."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "stringData": dict(values),
    }


def _build_server() -> Path:
    """Build the statically linked server, and return its path."""
    command = ["make", "--silent", "--no-print-directory", "s3"]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return Path(built.stdout.splitlines()[-1])


def _is_ready(kube: Kube) -> bool:
    pod = kube.find("pod", NAME) or {}
    conditions = pod.get("status", {}).get("conditions", [])
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )


def _render_server(image: str) -> tuple[Json, Json]:
    keys = ("--access", "$(AWS_ACCESS_KEY_ID)", "--secret", "$(AWS_SECRET_ACCESS_KEY)")
    where = ("posix", "--sidecar", f"{MOUNT}/facts", f"{MOUNT}/data")
    container = {
        "name": NAME,
        "image": image,
        "command": [f"{MOUNT}/server", "--port", f":{PORT}", *keys, *where],
        "envFrom": [{"secretRef": {"name": SECRET}}],
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": NAME, "mountPath": MOUNT}],
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": NAME, "labels": {"app": NAME}},
        "spec": {
            "automountServiceAccountToken": False,
            "containers": [container],
            "volumes": [{"name": NAME, "persistentVolumeClaim": {"claimName": NAME}}],
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAME},
        "spec": {"selector": {"app": NAME}, "ports": [{"port": PORT}]},
    }
    return pod, service
