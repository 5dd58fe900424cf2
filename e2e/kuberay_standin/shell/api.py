"""A small client for the API server: asks once, hides nothing, knows no RayJob.

Tests and benchmarks log in by the same kubeconfigs with `read_kubeconfig`.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from urllib.parse import SplitResult, urlencode, urlsplit

import yaml

from kuberay_standin.objects import Json

TIMEOUT = 30
REFUSED = 400
MERGE_PATCH = "application/merge-patch+json"
RESOURCES: Mapping[str, str] = MappingProxyType(
    {
        "Job": "apis/batch/v1/jobs",
        "Pod": "api/v1/pods",
        "RayCluster": "apis/ray.io/v1/rayclusters",
        "RayJob": "apis/ray.io/v1/rayjobs",
        "Secret": "api/v1/secrets",
        "Service": "api/v1/services",
    }
)


class RefusalError(Exception):
    """The server said no: `status` is HTTP's, the message is the server's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True)
class Login:
    """Address of a server, and the credentials of its caller."""

    address: SplitResult
    context: ssl.SSLContext | None
    token: str = ""

    def build_headers(self) -> dict[str, str]:
        """Return the header with the caller's token. Return no header without a token."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


class Api:
    """One API server, over one connection; not for several threads."""

    def __init__(self, login: Login) -> None:
        self._login = login
        host, port = login.address.hostname or "", login.address.port
        self._connection: http.client.HTTPConnection
        if login.context is None:
            self._connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT)
        else:
            self._connection = http.client.HTTPSConnection(
                host, port, timeout=TIMEOUT, context=login.context
            )

    def list(self, kind: str, namespace: str = "", labels: str = "") -> list[Json]:
        """Read all objects of a kind in a namespace (empty: in all), or those with labels."""
        query = {"labelSelector": labels} if labels else {}
        answer = self._ask("GET", build_path(kind, namespace), query=query)
        version = answer["apiVersion"]
        return [{"apiVersion": version, "kind": kind, **item} for item in answer["items"]]

    def create(self, body: Json) -> None:
        """Make an object in its namespace."""
        self._ask("POST", build_path(body["kind"], body["metadata"]["namespace"]), body)

    def put_status(self, body: Json, status: Json) -> None:
        """Make this the whole status of an object, if it is still as it was read."""
        metadata = body["metadata"]
        path = build_path(body["kind"], metadata["namespace"], metadata["name"])
        self._ask("PUT", f"{path}/status", {**body, "status": status})

    def hold(self, body: Json, finalizers: tuple[str, ...]) -> None:
        """Make these the finalizers of an object, if it is still as it was read."""
        metadata = body["metadata"]
        path = build_path(body["kind"], metadata["namespace"], metadata["name"])
        patch = {
            "metadata": {
                "finalizers": list(finalizers),
                "resourceVersion": metadata["resourceVersion"],
            }
        }
        self._ask("PATCH", path, patch, content=MERGE_PATCH)

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object; what it owns goes in the background."""
        options = {"propagationPolicy": "Background"}
        self._ask("DELETE", build_path(kind, namespace, name), options)

    def _ask(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        content: str = "application/json",
        query: Mapping[str, str] = MappingProxyType({}),
    ) -> Json:
        prefix = self._login.address.path.rstrip("/")
        target = f"{prefix}/{path}" + (f"?{urlencode(query)}" if query else "")
        sent = None if body is None else json.dumps(body).encode()
        headers = {**self._login.build_headers(), "Content-Type": content}
        try:
            self._connection.request(method, target, sent, headers)
            response = self._connection.getresponse()
            text = response.read().decode()
        except BaseException:
            self._connection.close()  # the next request opens a new one
            raise
        return read_answer(response.status, text)


def read_answer(status: int, text: str) -> Json:
    """Read what a server answered.

    Raises:
        RefusalError: it was 400 or above.
    """
    try:
        answer = json.loads(text)
    except ValueError:
        answer = {"message": text}
    if status >= REFUSED:
        raise RefusalError(status, str(answer.get("message", text)))
    return dict(answer)


def build_path(kind: str, namespace: str = "", name: str = "") -> str:
    """Render the path of an object, or of a list of them."""
    version, _, plural = RESOURCES[kind].rpartition("/")
    location = ("namespaces", namespace) if namespace else ()
    return "/".join(part for part in (version, *location, plural, name) if part)


def read_kubeconfig(path: Path) -> Login:
    """Read the login of a kubeconfig's current context: a token or a client certificate.

    Raises:
        ValueError: the user has neither.
    """
    cluster, user = find_context(path)
    address = urlsplit(cluster["server"])
    context = make_context(cluster, user) if address.scheme == "https" else None
    return Login(address, context, token=user.get("token", ""))


def find_context(path: Path) -> tuple[Json, Json]:
    """Return the cluster and the user of a kubeconfig's current context."""
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    names = _pick(config, "context", config["current-context"])
    return _pick(config, "cluster", names["cluster"]), _pick(config, "user", names["user"])


def _pick(config: Json, kind: str, name: str) -> Json:
    return next(dict(entry[kind]) for entry in config[f"{kind}s"] if entry["name"] == name)


def make_context(cluster: Json, user: Json) -> ssl.SSLContext:
    """Trust the cluster's authority, and present the user's certificate.

    Raises:
        ValueError: the user has neither a token nor a client certificate.
    """
    authority = cluster.get("certificate-authority-data")
    data = base64.b64decode(authority).decode() if authority else None
    context = ssl.create_default_context(cafile=cluster.get("certificate-authority"), cadata=data)
    if "client-certificate-data" in user:
        with tempfile.NamedTemporaryFile(suffix=".pem") as both:
            both.write(base64.b64decode(user["client-certificate-data"]) + b"\n")
            both.write(base64.b64decode(user["client-key-data"]))
            both.flush()
            context.load_cert_chain(both.name)
    elif "client-certificate" in user:
        context.load_cert_chain(user["client-certificate"], user["client-key"])
    elif "token" not in user:
        raise ValueError("the user of the kubeconfig needs a token or a client certificate")
    return context
