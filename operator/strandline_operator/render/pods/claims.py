"""Claim volumes in a pod: a pipeline's inputs and outputs, with each claim only once.

The module must not depend on the purpose of containers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from strandline_api.spec.pod_paths import INPUT_VOLUME_PREFIX, INPUTS, OUTPUT
from strandline_operator.render.order import Order

# Other programs find these volumes by name.
_OWN_CLAIMS = frozenset({"ledger", "output"})


def mount_output(order: Order) -> list[dict[str, Any]]:
    """Return the mount of outputs, if the pipeline has a claim for them."""
    claim = order.spec.storage.output.claim_name
    return [] if claim is None else [{"name": "output", "mountPath": OUTPUT}]


def mount_inputs(order: Order) -> list[dict[str, Any]]:
    """Return the read-only mounts of claims that the attempt reads."""
    return [
        {
            "name": f"{INPUT_VOLUME_PREFIX}{index}",
            "mountPath": f"{INPUTS}/{claim}",
            "readOnly": True,
        }
        for index, claim in enumerate(order.input_claims)
    ]


def render_input_volumes(order: Order) -> list[dict[str, Any]]:
    """Return the volumes of claims that the attempt reads."""
    return [
        {
            "name": f"{INPUT_VOLUME_PREFIX}{index}",
            "persistentVolumeClaim": {"claimName": claim},
        }
        for index, claim in enumerate(order.input_claims)
    ]


def render_output_volume(order: Order) -> list[dict[str, Any]]:
    """Return the volume of outputs, if the pipeline has a claim for them."""
    claim = order.spec.storage.output.claim_name
    if claim is None:
        return []
    return [{"name": "output", "persistentVolumeClaim": {"claimName": claim}}]


def join_claims(spec: dict[str, Any]) -> None:
    """Merge volumes of the same claim: kubelets wait forever for a claim that is in a pod twice.

    Mount paths do not change: one volume then has several mounts, some of them read-only. Without
    duplicates nothing changes, and the API server rejects invalid volumes.
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
    """Return the named entries of a user's list; empty for other values."""
    items = entries if isinstance(entries, list | tuple) else ()
    return [
        entry
        for entry in items
        if isinstance(entry, Mapping) and isinstance(entry.get("name"), str)
    ]


def _find_claim(volume: Mapping[str, Any]) -> str | None:
    """Return the claim of a writable claim volume; None for other volumes."""
    source = volume.get("persistentVolumeClaim")
    # A read-only volume must stay separate: merging would make its mounts writable.
    if not isinstance(source, Mapping) or source.get("readOnly"):
        return None
    return source.get("claimName")
