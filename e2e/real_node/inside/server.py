"""Checks whether a cluster is ready, before the user's command starts.

This module must not depend on the use of the results.
"""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from real_node import layout

TIMEOUT = 5  # seconds per request
NO_PROXY = urllib.request.ProxyHandler({})
# The API server's address through its Service. A response shows that kube-proxy has set its rules.
SERVICE = "https://10.0.0.1:443"


@dataclass(frozen=True, slots=True)
class Server:
    """Requests an API server that may not be up yet, as its administrator."""

    authority: Path
    token: str

    def ask(self, path: str, address: str = layout.SERVER) -> Any:
        """Request a path and return the JSON or text. Return None if the request fails."""
        headers = {"Authorization": f"Bearer {self.token}", "Accept": "application/json"}
        request = urllib.request.Request(f"{address}/{path}", headers=headers)  # noqa: S310
        try:
            context = ssl.create_default_context(cafile=str(self.authority))
            opener = urllib.request.build_opener(
                NO_PROXY, urllib.request.HTTPSHandler(context=context)
            )
            with opener.open(request, timeout=TIMEOUT) as answer:
                text = answer.read()
        except OSError:
            return None
        return json.loads(text) if text.startswith(b"{") else text.decode()

    def is_serving(self) -> bool:
        """Return whether the API server is ready."""
        return self.ask("readyz") is not None

    def has_services(self) -> bool:
        """Return whether the API server is reachable through its Service."""
        return self.ask("readyz", SERVICE) is not None

    def has_node(self) -> bool:
        """Return whether the node is ready for pods."""
        node = self.ask(f"api/v1/nodes/{layout.NODE_NAME}")
        return node is not None and is_ready(node)

    def has_accounts(self) -> bool:
        """Return whether a namespace has the default service account and the root CA."""
        path = "api/v1/namespaces/default"
        wanted = ("serviceaccounts/default", "configmaps/kube-root-ca.crt")
        return all(self.ask(f"{path}/{name}") is not None for name in wanted)


def is_ready(node: dict[str, Any]) -> bool:
    """Return whether a node reports Ready and has no taint that rejects pods."""
    conditions = node.get("status", {}).get("conditions", [])
    ready = any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)
    return ready and not node.get("spec", {}).get("taints")


def has_names() -> bool:
    """Return whether the DNS server has loaded its records."""
    opener = urllib.request.build_opener(NO_PROXY)
    try:
        with opener.open(f"http://{layout.NODE_ADDRESS}:8181/ready", timeout=TIMEOUT):
            return True
    except OSError:
        return False
