"""What users add to an attempt's pods: variables, volumes and templates of their own. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel

from strandline_api.spec.pod_places import CONTAINERS
from strandline_api.spec.ray_cluster import RayCluster
from strandline_operator.render.overlay import lay_over


def add_to_container(container: Mapping[str, Any], ray: RayCluster) -> dict[str, Any]:
    """A Ray container with the variables and mounts that the pipeline asks for.

    A variable of ours that it sets too is there once, since KubeRay's definition refuses two.
    """
    added = {
        "env": _spell(ray.env),
        "envFrom": _spell(ray.env_from),
        "volumeMounts": _spell(ray.volume_mounts),
    }
    return dict(lay_over(container, {name: more for name, more in added.items() if more}))


def spell_volumes(ray: RayCluster) -> list[dict[str, Any]]:
    """The volumes that the pipeline asks for, as a pod has them."""
    return _spell(ray.volumes)


def fit_template(template: Mapping[str, Any], container: str) -> dict[str, Any]:
    """What of a pod template is meant for the pod with this container of ours.

    A template for all pods may speak of the containers of each; an empty list speaks of none.
    """
    spec = template.get("spec")
    if not isinstance(spec, Mapping):
        return dict(template)
    fitting = dict(spec)
    for kind in ("containers", "initContainers"):
        if kind in spec:
            others = set(CONTAINERS) - {container}
            fitting[kind] = [one for one in spec[kind] or () if one["name"] not in others]
            if not fitting[kind]:
                del fitting[kind]
    return {**template, "spec": fitting}


def _spell(items: Iterable[BaseModel]) -> list[dict[str, Any]]:
    return [item.model_dump(mode="json", by_alias=True, exclude_unset=True) for item in items]
