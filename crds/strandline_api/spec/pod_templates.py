"""Whether a pod template that a user wrote fits the pods that it is laid over.

Kubernetes would only say so of a pod, minutes later and each time anew. This room must not know how
one template is laid over another.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from strandline_api.spec.pod_paths import CONTAINERS


class Misfit(NamedTuple):
    """What does not fit, by its path below the template, and what to do about it."""

    path: str
    message: str


def find_misfit(template: Mapping[str, Any], fitting: Sequence[str]) -> Misfit | None:
    """Find the first part of a pod template that makes no valid pod.

    Args:
        template: what is laid over the generated one.
        fitting: names of the generated containers that it may change; what has another name is a
            container of its own, and needs an image.

    Returns:
        None where all of it fits.
    """
    return next(_list_misfits(template, fitting), None)


def _list_misfits(template: Mapping[str, Any], fitting: Sequence[str]) -> Iterator[Misfit]:
    for part in ("metadata", "spec"):
        if part in template and not isinstance(template[part], Mapping):
            yield Misfit(part, "must be an object")
            return
    spec = template.get("spec", {})
    names = ", ".join(f"'{name}'" for name in fitting)
    for path, container in _list_containers(spec, "containers"):
        yield from _judge(path, container, fitting, f"names that fit: {names}")
    for path, container in _list_containers(spec, "initContainers"):
        yield from _judge(path, container, (), "there are none to change")


def _list_containers(spec: Mapping[str, Any], kind: str) -> Iterator[tuple[str, object]]:
    listed = spec.get(kind)
    # An empty list is what tools write that must write one.
    if isinstance(listed, list | tuple):
        yield from ((f"spec.{kind}[{at}]", container) for at, container in enumerate(listed))
    elif listed is not None:
        yield f"spec.{kind}", listed


def _judge(path: str, container: object, fitting: Sequence[str], known: str) -> Iterator[Misfit]:
    if not isinstance(container, Mapping):
        yield Misfit(path, "must be a container, with a 'name'")
        return
    name = container.get("name")
    if not isinstance(name, str) or not name:
        yield Misfit(path, f"a container needs a 'name'; {known}")
    elif name not in fitting and (name in CONTAINERS or not container.get("image")):
        advice = "" if name in CONTAINERS else "; one of your own needs an 'image'"
        yield Misfit(path, f"no such container here is named '{name}'; {known}{advice}")
