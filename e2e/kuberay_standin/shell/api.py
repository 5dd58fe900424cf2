"""A small client for the API server: sends each request once and reports every error.

Tests also use `Connection`, and benchmarks log in with `read_kubeconfig`. The client must not
depend on RayJobs.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from urllib.parse import SplitResult, urlencode, urlsplit

import yaml

from kuberay_standin.objects import Json

TIMEOUT = 30
SILENT = 20  # seconds after which an idle connection is closed
REFUSED = 400
JSON = "application/json"
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
    """Raised if the server rejected a request. Has the HTTP status, the message, and the reason."""

    def __init__(self, status: int, message: str, reason: str = "") -> None:
        words = f"{status} {reason}" if reason else str(status)
        super().__init__(f"{words}: {message}")
        self.status = status
        self.message = message
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Login:
    """Address of a server, and the credentials of a user."""

    address: SplitResult
    context: ssl.SSLContext | None
    token: str = ""

    def build_headers(self) -> dict[str, str]:
        """Return a header with the user's token, or no header if there is no token."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


class Connection:
    """A connection to an API server as one user; not thread-safe."""

    def __init__(self, login: Login, timeout: float = TIMEOUT) -> None:
        self._headers = login.build_headers()
        self._prefix = login.address.path.rstrip("/")
        host, port = login.address.hostname or "", login.address.port
        self._connection: http.client.HTTPConnection
        if login.context is None:
            self._connection = http.client.HTTPConnection(host, port, timeout=timeout)
        else:
            self._connection = http.client.HTTPSConnection(
                host, port, timeout=timeout, context=login.context
            )
        self._asked = time.monotonic()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def ask(
        self,
        method: str,
        path: str,
        body: Json | bytes | None = None,
        *,
        content: str = JSON,
        accept: str = JSON,
        query: Mapping[str, str] = MappingProxyType({}),
    ) -> Json:
        """Send one request and return the JSON of the response, or `{"text": ...}`.

        Raises:
            RefusalError: if the response's status is 400 or above.
        """
        sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        target = f"{self._prefix}/{path}" + (f"?{urlencode(query)}" if query else "")
        headers = {**self._headers, "Content-Type": content, "Accept": accept}
        status, text = self._exchange(method, target, sent, headers)
        answer = read_answer(text)
        if status >= REFUSED:
            message = str(answer.get("message", text))
            raise RefusalError(status, message, str(answer.get("reason", "")))
        return answer

    def _exchange(
        self, method: str, target: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, str]:
        # Servers close idle connections. Close this connection first, so that no request fails.
        if time.monotonic() - self._asked > SILENT:
            self._connection.close()
        self._asked = time.monotonic()
        try:
            self._connection.request(method, target, body, headers)
            response = self._connection.getresponse()
            return response.status, response.read().decode()
        except BaseException:
            self._connection.close()  # the next request reconnects
            raise


class Api(Connection):
    """The API server as the stand-in's loop uses it."""

    def list(self, kind: str, namespace: str = "", labels: str = "") -> list[Json]:
        """Return a kind's objects with these labels. An empty namespace means all."""
        query = {"labelSelector": labels} if labels else {}
        answer = self.ask("GET", build_path(kind, namespace), query=query)
        version = answer["apiVersion"]
        return [{"apiVersion": version, "kind": kind, **item} for item in answer["items"]]

    def create(self, body: Json) -> None:
        """Create an object in its namespace."""
        self.ask("POST", build_path(body["kind"], body["metadata"]["namespace"]), body)

    def put_status(self, body: Json, status: Json) -> None:
        """Replace the status of an object, if the object has not changed since it was read."""
        metadata = body["metadata"]
        path = build_path(body["kind"], metadata["namespace"], metadata["name"])
        self.ask("PUT", f"{path}/status", {**body, "status": status})

    def hold(self, body: Json, finalizers: tuple[str, ...]) -> None:
        """Replace the finalizers of an object, if the object has not changed since it was read."""
        metadata = body["metadata"]
        path = build_path(body["kind"], metadata["namespace"], metadata["name"])
        patch = {
            "metadata": {
                "finalizers": list(finalizers),
                "resourceVersion": metadata["resourceVersion"],
            }
        }
        self.ask("PATCH", path, patch, content=MERGE_PATCH)

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object. Its dependents are deleted in the background."""
        options = {"propagationPolicy": "Background"}
        self.ask("DELETE", build_path(kind, namespace, name), options)


def read_answer(text: str) -> Json:
    """Parse a response as JSON; return any other content as text."""
    try:
        answer = json.loads(text)
    except ValueError:
        return {"text": text}
    return answer if isinstance(answer, dict) else {"text": text}


def build_path(kind: str, namespace: str = "", name: str = "") -> str:
    """Return the URL path of an object, or of a list of objects."""
    version, _, plural = RESOURCES[kind].rpartition("/")
    location = ("namespaces", namespace) if namespace else ()
    return "/".join(part for part in (version, *location, plural, name) if part)


def read_kubeconfig(path: Path) -> Login:
    """Return the login of a kubeconfig's current context: a token or a client certificate.

    Raises:
        ValueError: if the user has neither a token nor a client certificate.
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
    """Return an SSL context with the cluster's CA and the user's certificate.

    Raises:
        ValueError: if the user has neither a token nor a client certificate.
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
