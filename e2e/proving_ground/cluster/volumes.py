"""Creates claims for ledger and output: host folders on a local node, or from a storage class.

This module must not depend on the contents.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from proving_ground.cluster.kube import Json, Kube

SIZE: Json = {"storage": "1Gi"}


@dataclass(frozen=True, slots=True)
class Volume:
    """A claim for a volume of a scenario.

    Attributes:
        folder: folder behind the claim, or None if only pods can reach the volume.
    """

    claim: str
    folder: Path | None


def make_volume(kube: Kube, claim: str, root: Path | None) -> Volume:
    """Create a claim for a new folder below `root`.

    If `root` is None, use the default storage class.
    """
    if root is None:
        kube.apply(_render_claim(claim, {}))
        return Volume(claim, None)
    remove_volume(kube, claim, root)
    name = f"{kube.namespace}-{claim}"
    folder = root / name
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    bound = {"storageClassName": "", "volumeName": name}
    kube.apply(_render_volume(kube.namespace, claim, folder), _render_claim(claim, bound))
    return Volume(claim, folder)


def remove_volume(kube: Kube, claim: str, root: Path | None) -> None:
    """Remove the folder and its PersistentVolume. No pod may use them anymore."""
    if root is None:
        return
    name = f"{kube.namespace}-{claim}"
    kube.delete("pv", name)
    shutil.rmtree(root / name, ignore_errors=True)


def _render_volume(namespace: str, claim: str, folder: Path) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{namespace}-{claim}"},
        "spec": {
            "capacity": SIZE,
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "hostPath": {"path": str(folder), "type": "Directory"},
            "claimRef": {"namespace": namespace, "name": claim},
        },
    }


def _render_claim(claim: str, bound: Json) -> Json:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": SIZE}, **bound}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": claim},
        "spec": spec,
    }
