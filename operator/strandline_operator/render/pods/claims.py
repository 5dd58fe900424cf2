"""Adds claims to a pod as volumes: a pipeline's inputs and outputs, each claim only once.

This module must not depend on the purpose of containers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from strandline_api.spec.pod_paths import INPUT_VOLUME_PREFIX, INPUTS, OUTPUT
from strandline_operator.render.order import Order

# Names of volumes that other programs look up, so they must not change.
_OWN_CLAIMS = frozenset({"ledger", "output"})


def mount_output(order: Order) -> list[dict[str, Any]]:
    """Return the mount for outputs, if the pipeline has a claim for outputs."""
    claim = order.spec.storage.output.claim_name
    return [] if claim is None else [{"name": "output", "mountPath": OUTPUT}]


def mount_inputs(order: Order) -> list[dict[str, Any]]:
    """Return read-only mounts of the claims from which the attempt reads."""
    return [
        {
            "name": f"{INPUT_VOLUME_PREFIX}{index}",
            "mountPath": f"{INPUTS}/{claim}",
            "readOnly": True,
        }
        for index, claim in enumerate(order.input_claims)
    ]


def render_input_volumes(order: Order) -> list[dict[str, Any]]:
    """Return the volumes of the claims from which the attempt reads."""
    return [
        {
            "name": f"{INPUT_VOLUME_PREFIX}{index}",
            "persistentVolumeClaim": {"claimName": claim},
        }
        for index, claim in enumerate(order.input_claims)
    ]


def render_output_volume(order: Order) -> list[dict[str, Any]]:
    """Return the volume for outputs, if the pipeline has a claim for outputs."""
    claim = order.spec.storage.output.claim_name
    if claim is None:
        return []
    return [{"name": "output", "persistentVolumeClaim": {"claimName": claim}}]


def join_claims(spec: dict[str, Any]) -> None:
    """Merge volumes of the same claim, because kubelets wait forever if a pod has a claim twice.

    Mount paths do not change: the merged volume has several mounts, some of which may be read-only.
    Without duplicates, nothing changes. Invalid volumes are left for the API server to reject.
    """
    claims = {
        volume["name"]: claim
        for volume in _list_named(spec.get("volumes"))
        if (claim := _find_claim(volume))
    }
    names: dict[str, str] = {}
    for name in sorted(claims, key=lambda name: name not in _OWN_CLAIMS):
        names.setdefault(claims[name], name)
    joined = {name: names[claim] for name, claim in claims.items() if names[claim] != name}
    if not joined:
        return
    spec["volumes"] = [
        volume for volume in _list_named(spec["volumes"]) if volume["name"] not in joined
    ]
    for kind in ("containers", "initContainers"):
        if kind in spec:
            spec[kind] = [_rename_mounts(each, joined) for each in _list_named(spec[kind])]


def _rename_mounts(container: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    mounts = [
        {**mount, "name": names.get(mount["name"], mount["name"])}
        for mount in _list_named(container.get("volumeMounts"))
    ]
    return {**container, "volumeMounts": mounts} if mounts else dict(container)


def _list_named(entries: object) -> list[Mapping[str, Any]]:
    """Return the entries of a user's list that have a name; empty for other values."""
    items = entries if isinstance(entries, list | tuple) else ()
    return [
        entry
        for entry in items
        if isinstance(entry, Mapping) and isinstance(entry.get("name"), str)
    ]


def _find_claim(volume: Mapping[str, Any]) -> str | None:
    """Return the claim of a writable claim volume, or None for other volumes."""
    source = volume.get("persistentVolumeClaim")
    # Keep a read-only volume separate, because merging would make its mounts writable.
    if not isinstance(source, Mapping) or source.get("readOnly"):
        return None
    return source.get("claimName")
