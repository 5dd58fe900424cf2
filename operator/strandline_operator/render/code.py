"""Delivers a pipeline's own code to its pods.

Code in a ConfigMap is copied for each attempt and mounted, so that pods that start later get the
same code. Other code is fetched by an init container, `strandline fetch-code`, before Ray starts.
"""

from __future__ import annotations

import json
from typing import Any

from strandline_api.names import name_code
from strandline_api.spec.code import CODE_VARIABLE, FETCHED, FILES, Code, list_code_folders
from strandline_api.spec.pod_paths import CODE, CODE_FETCHED_VOLUME, CODE_FILES_VOLUME
from strandline_operator.model.plan import Manifest
from strandline_operator.render.order import Order

CONTAINER = "strandline-code"
PYTHONPATH = "PYTHONPATH"
# Variable that preserves a user's own path if it comes from `valueFrom`.
OWN_PATH = "STRANDLINE_OWN_PYTHONPATH"
# Fields of Ray's container that the fetching container needs. Ports, probes, and devices are not
# copied.
_SHARED = ("image", "imagePullPolicy", "env", "envFrom", "securityContext")
_RESOURCES = ("cpu", "memory", "ephemeral-storage")

Template = dict[str, Any]


def render_code(order: Order, metadata: dict[str, Any]) -> Manifest | None:
    """Render the attempt's copy of the ConfigMap with code, or None if the pipeline names none."""
    if order.code is None:
        return None
    files = {"data": dict(order.code.texts), "binaryData": dict(order.code.binaries)}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        **{name: content for name, content in files.items() if content},
        "immutable": True,
    }


def bring_code(order: Order, template: Template) -> Template:
    """Add the code to the template of a Ray pod. Ray's container must be the first.

    Call this last, because the fetching container copies the final image, variables, and mounts of
    Ray's container, including changes by the user's templates.
    """
    code = order.spec.code
    if not code.is_given:
        return template
    spec = dict(template["spec"])
    ray, *others = spec["containers"]
    volumes: list[dict[str, Any]] = []
    mounts: list[dict[str, Any]] = []
    if code.config_map is not None:
        volumes.append(
            {
                "name": CODE_FILES_VOLUME,
                "configMap": {"name": name_code(order.pipeline, order.number)},
            }
        )
        mounts.append({"name": CODE_FILES_VOLUME, "mountPath": f"{CODE}/{FILES}", "readOnly": True})
    if code.is_fetched:
        mount = {"name": CODE_FETCHED_VOLUME, "mountPath": f"{CODE}/{FETCHED}"}
        volumes.append({"name": CODE_FETCHED_VOLUME, "emptyDir": {}})
        mounts.append(mount | {"readOnly": True})
        spec["initContainers"] = [*spec.get("initContainers", []), _render_fetch(ray, code, mount)]
    changed = {"env": _add_path(ray, code), "volumeMounts": [*_list(ray, "volumeMounts"), *mounts]}
    spec["containers"] = [ray | changed, *others]
    spec["volumes"] = [*spec["volumes"], *volumes]
    return template | {"spec": spec}


def _render_fetch(ray: dict[str, Any], code: Code, mount: dict[str, Any]) -> dict[str, Any]:
    """Render the fetching container, which is like Ray's but may write to the code folder."""
    document = code.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    document.pop("configMap", None)
    resources = {
        kind: {name: size for name, size in amounts.items() if name in _RESOURCES}
        for kind, amounts in ray.get("resources", {}).items()
        if kind in {"requests", "limits"}
    }
    return {
        "name": CONTAINER,
        **{name: ray[name] for name in _SHARED if name in ray},
        # Escape `$(`, because Kubernetes would replace `$(…)` with the value of a variable.
        "command": [
            "strandline",
            "fetch-code",
            json.dumps(document).replace("$(", "$$("),
            "--into",
            mount["mountPath"],
        ],
        "resources": resources,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [*_list(ray, "volumeMounts"), mount],
    }


def _add_path(ray: dict[str, Any], code: Code) -> list[dict[str, Any]]:
    """Add the code's folders to the variables, before any path that the user has set."""
    path = [f"{CODE}/{folder}" for folder in list_code_folders(code)]
    variables = []
    for variable in _list(ray, "env"):
        if variable["name"] != PYTHONPATH:
            variables.append(variable)
        # Put the user's own path after the code's folders.
        elif "value" in variable:
            path.append(variable["value"])
        else:
            # The path's value is unknown here, so move it to another variable and refer to that
            # variable.
            variables.append(variable | {"name": OWN_PATH})
            path.append(f"$({OWN_PATH})")
    return [
        *variables,
        {"name": CODE_VARIABLE, "value": CODE},
        {"name": PYTHONPATH, "value": ":".join(filter(None, path))},
    ]


def _list(container: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return list(container.get(name) or [])
