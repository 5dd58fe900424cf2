"""Volumes that are folders of the node, and what a run has left on them.

Only for a node on this machine. This room must not know what wrote the files.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from proving_ground.kube import Json, Kube

USER = 1000


@dataclass(frozen=True, slots=True)
class Volume:
    """A claim, and the folder behind it."""

    claim: str
    folder: Path

    @property
    def opened(self) -> Counter[tuple[int, str]]:
        """How often each attempt opened each source, by attempt and key."""
        log = self.folder / "opened.log"
        if not log.exists():
            return Counter()
        lines = (line.split("\t") for line in log.read_text(encoding="utf-8").splitlines())
        return Counter((int(attempt), key) for attempt, key in lines)


def make_volume(kube: Kube, claim: str, root: Path, mode: str = "ReadWriteOnce") -> Volume:
    """Make a folder of the node, a PersistentVolume for it and the claim that is bound to it."""
    folder = root / f"{kube.namespace}-{claim}"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    kube.apply(*_render(kube.namespace, claim, folder, mode))
    return Volume(claim, folder)


def _render(namespace: str, claim: str, folder: Path, mode: str) -> tuple[Json, Json]:
    name = f"{namespace}-{claim}"
    size = {"storage": "1Gi"}
    volume: Json = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": size,
            "accessModes": [mode],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "hostPath": {"path": str(folder), "type": "Directory"},
            "claimRef": {"namespace": namespace, "name": claim},
        },
    }
    asked: Json = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": claim},
        "spec": {
            "accessModes": [mode],
            "storageClassName": "",
            "volumeName": name,
            "resources": {"requests": size},
        },
    }
    return volume, asked
