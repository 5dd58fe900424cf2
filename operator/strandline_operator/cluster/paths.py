"""Where an API server keeps each kind of object. Pure."""

from __future__ import annotations

from urllib.parse import quote

from strandline_api.names import API_VERSION
from strandline_operator.model.plan import Resource

_ROOTS = {
    Resource.PIPELINE: f"/apis/{API_VERSION}",
    Resource.ATTEMPT: f"/apis/{API_VERSION}",
    Resource.RAYJOB: "/apis/ray.io/v1",
    Resource.RAYCLUSTER: "/apis/ray.io/v1",
}
_CORE = "/api/v1"


def spell_path(resource: Resource, namespace: str | None, name: str = "", part: str = "") -> str:
    """The path of an object, of its `part` (such as `status`), or of all of a namespace or all."""
    pieces = [_ROOTS.get(resource, _CORE)]
    if namespace is not None:
        pieces += ["namespaces", quote(namespace, safe="")]
    pieces.append(resource.value.partition(".")[0])
    pieces += [quote(piece, safe="") for piece in (name, part) if piece]
    return "/".join(pieces)
