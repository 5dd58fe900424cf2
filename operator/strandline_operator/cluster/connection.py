"""Configures the connection to the API server, from inside a pod or from a kubeconfig.

This module must not depend on requests to the server.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import yaml
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config.config_exception import ConfigException
from kubernetes.aio.config.incluster_config import load_incluster_config
from kubernetes.aio.config.kube_config import load_kube_config

_IN_POD = "KUBERNETES_SERVICE_HOST"
# Errors that an invalid file may cause, because the library does not validate the file.
_UNREADABLE = (
    ConfigException,
    OSError,
    ValueError,
    TypeError,
    AttributeError,
    yaml.YAMLError,
)


class NoClusterError(Exception):
    """Raised if no configuration names a cluster."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials for another client of the same server.

    Attributes:
        server: address, such as `https://10.0.0.1:443`.
        authorization: value of the Authorization header; empty if a certificate is used.
        ca_path, certificate_path, key_path: paths of files, or None.
    """

    server: str
    authorization: str
    ca_path: str | None
    certificate_path: str | None
    key_path: str | None
    is_insecure: bool


async def load_configuration(configuration: Configuration | None = None) -> Configuration:
    """Read the credentials into a new configuration, or again into an existing configuration.

    KUBECONFIG takes precedence, then the pod's service account, then the file in the home folder.

    Raises:
        NoClusterError: if no configuration was found or readable.
    """
    target = Configuration() if configuration is None else configuration
    try:
        if os.environ.get(_IN_POD) and not os.environ.get("KUBECONFIG"):
            load_incluster_config(client_configuration=target)
        else:
            await load_kube_config(config_file=_find_file(), client_configuration=target)
    except _UNREADABLE as error:
        text = " ".join(str(error).split())
        raise NoClusterError(
            f"no usable cluster configuration: {text}; set KUBECONFIG, or run in a pod with a "
            "service account"
        ) from error
    # If aiohttp read proxy settings from the environment, each request would use two threads.
    target.client_session_kwargs = {"trust_env": False}
    target.proxy = target.proxy or find_proxy(target.host)
    return target


def find_proxy(server: str) -> str | None:
    """Return the proxy for a server according to HTTPS_PROXY, HTTP_PROXY, and NO_PROXY, if any."""
    parts = urlsplit(server)
    return None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)


def _find_file() -> str:
    """Return the path of the kubeconfig.

    Several paths are joined by colons; at least one exists.

    Raises:
        FileNotFoundError: if no file exists.
    """
    paths = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    if not any(Path(path).is_file() for path in paths.split(os.pathsep)):
        raise FileNotFoundError(f"there is no kubeconfig file {paths}")
    return paths


async def read_credentials(configuration: Configuration) -> Credentials:
    """Return the current credentials of a configuration."""
    auth = (await configuration.auth_settings()).get("BearerToken", {})
    return Credentials(
        server=configuration.host,
        authorization=auth.get("value") or "",
        ca_path=configuration.ssl_ca_cert,
        certificate_path=configuration.cert_file,
        key_path=configuration.key_file,
        is_insecure=not configuration.verify_ssl,
    )
