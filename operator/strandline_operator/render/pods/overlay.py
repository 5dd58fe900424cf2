"""Merges a user's part of a manifest into a generated manifest.

This module must not depend on the pod to which a template belongs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel

from strandline_api.spec.pod_paths import CONTAINERS
from strandline_api.spec.ray_cluster import RayCluster

# Fields that identify list entries, in order of precedence. Mounts also have a `name`, which is
# that of the volume and may be shared, so `mountPath` comes first.
_KEYS = ("mountPath", "containerPort", "name")
# Mutually exclusive fields of a variable: its value, or the source of its value.
_EITHER = frozenset({"value", "valueFrom"})


def lay_over(base: Any, top: Any) -> Any:  # noqa: ANN401 - any part of a manifest
    """Merge two manifests into a new manifest, in which `top` takes precedence.

    Objects are merged field by field. Lists whose entries have a key (mounts by path, ports by
    number, containers, volumes, and variables by name) are merged by key, in the order of `base`,
    then of `top`. Other lists are replaced.
    """
    if isinstance(base, Mapping) and isinstance(top, Mapping):
        result = dict(base)
        for name, value in top.items():
            result[name] = lay_over(base[name], value) if name in base else value
        return result
    key = next((key for key in _KEYS if _has_key(base, key) and _has_key(top, key)), None)
    if key is None:
        return top
    entries = {entry[key]: entry for entry in base}
    for entry in top:
        base_entry = entries.get(entry[key])
        # Replace the other field: a variable with both a value and a source would be invalid.
        if base_entry is not None and _EITHER & entry.keys():
            base_entry = {name: value for name, value in base_entry.items() if name not in _EITHER}
        entries[entry[key]] = entry if base_entry is None else lay_over(base_entry, entry)
    return list(entries.values())


def _has_key(value: object, key: str) -> bool:
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(entry, Mapping) and key in entry for entry in value)
    )


def add_to_container(container: Mapping[str, Any], ray: RayCluster) -> dict[str, Any]:
    """Add the variables and mounts that the pipeline requests to a Ray container.

    The pipeline's variables replace the operator's, because KubeRay rejects duplicates.
    """
    added = {
        "env": _dump(ray.env),
        "envFrom": _dump(ray.env_from),
        "volumeMounts": _dump(ray.volume_mounts),
    }
    return dict(lay_over(container, {name: more for name, more in added.items() if more}))


def render_volumes(ray: RayCluster) -> list[dict[str, Any]]:
    """Render the pipeline's volumes in pod format."""
    return _dump(ray.volumes)


def fit_template(template: Mapping[str, Any], container: str) -> dict[str, Any]:
    """Return the parts of a pod template that apply to the pod with this container.

    A template for all pods may have entries for containers of other pods, which are dropped.
    """
    spec = template.get("spec")
    if not isinstance(spec, Mapping):
        return dict(template)
    fitting = dict(spec)
    for kind in ("containers", "initContainers"):
        if kind in spec:
            others = set(CONTAINERS) - {container}
            fitting[kind] = [part for part in spec[kind] or () if part["name"] not in others]
            if not fitting[kind]:
                del fitting[kind]
    return {**template, "spec": fitting}


def _dump(items: Iterable[BaseModel]) -> list[dict[str, Any]]:
    return [item.model_dump(mode="json", by_alias=True, exclude_unset=True) for item in items]
