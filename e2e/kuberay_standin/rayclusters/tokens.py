"""Creates the token of a Ray cluster whose RayCluster requires authentication.

The Secret, the variables, and the messages are those of KubeRay v1.7 with `authOptions: {mode:
token}`; only the generation of the token differs. This module does no I/O.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from kuberay_standin.objects import CLUSTER_LABEL, Json, get_name, refer

KEY = "auth_token"
MODE, TOKEN = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"
FIRST_WITH_TOKENS = (2, 52)
VERSION = re.compile(r"v?(\d+)\.(\d+)")
# A token has eight parts of five letters.
PARTS = 8


def wants_token(cluster: Json) -> bool:
    """Return whether a RayCluster requires a token."""
    return (cluster["spec"].get("authOptions") or {}).get("mode") == "token"


def make_secret(cluster: Json, token: str) -> Json:
    """Return the Secret with a RayCluster's token. Both objects have the same name."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": get_name(cluster),
            "namespace": cluster["metadata"]["namespace"],
            "labels": {CLUSTER_LABEL: get_name(cluster)},
            "ownerReferences": [refer(cluster)],
        },
        "stringData": {KEY: token},
    }


def read_token(secret: Json | None) -> str:
    """Return the token in a Secret, or an empty string if there is no token."""
    encoded = ((secret or {}).get("data") or {}).get(KEY, "")
    try:
        return base64.b64decode(encoded).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


def give_token(container: Json, cluster: Json) -> None:
    """Add the token's variables to a container, except those that its template sets."""
    if not wants_token(cluster):
        return
    variables = container.setdefault("env", [])
    known = {variable["name"] for variable in variables}
    key = {"name": get_name(cluster), "key": KEY}
    given: list[Json] = [
        {"name": MODE, "value": "token"},
        {"name": TOKEN, "valueFrom": {"secretKeyRef": key}},
    ]
    variables += [variable for variable in given if variable["name"] not in known]


def list_token_problems(cluster: Json) -> Iterator[str]:
    """Yield the problems of a RayCluster's `authOptions`."""
    options = cluster.get("authOptions") or {}
    for field in sorted(set(options) - {"mode"}):
        yield f"the KubeRay stand-in does not play spec.rayClusterSpec.authOptions.{field}"
    if options.get("mode") != "token":
        return
    version = cluster.get("rayVersion", "")
    found = VERSION.match(version)
    if found is None:
        yield (
            "authOptions.mode is 'token' but RayVersion was not specified."
            " Ray version 2.52.0 or later is required"
        )
    elif tuple(map(int, found.groups())) < FIRST_WITH_TOKENS:
        yield f"authOptions.mode is 'token' but minimum Ray version is 2.52.0, got {version}"
