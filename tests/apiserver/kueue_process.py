"""Runs Kueue's own manager on the tests' API server, with its CRDs and webhooks.

Kueue is installed as by its kustomization, and makes the certificate of its webhooks itself. The
Service of the webhooks is an ExternalName of loopback, because no kubelet runs pods. This module
writes the certificate into Kueue's folder, in place of a kubelet's mount. The module must not
depend on any story.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from control_plane import LOOPBACK, NotStartedError, find_free_ports
from kube_client import APPLY, KubeClient, Refusal

Json = dict[str, Any]
HOME = "kueue-system"
SERVICE = "kueue-webhook-service"
SECRET = "kueue-webhook-server-cert"  # noqa: S105 - a name
KIND = "CustomResourceDefinition"
DEFINITIONS = "apis/apiextensions.k8s.io/v1/customresourcedefinitions"
HOOKS = "apis/admissionregistration.k8s.io/v1"
# Kinds that Kueue converts between versions through a webhook.
CONVERTED = ("clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads")
# Resources of supported jobs that KubeRay creates or reads. The tests write no pods for Kueue.
HOOKED = frozenset({"rayjobs", "rayclusters", "jobs"})
FRAMEWORKS = ("batch/job", "ray.io/rayjob", "ray.io/raycluster")
LONGEST, PAUSE, LAST_LINES = 120.0, 0.2, 25


@contextmanager
def run_kueue(
    program: Path,
    components: Path,
    kubeconfig: Path,
    folder: Path,
    client: KubeClient,
    **changes: Any,
) -> Iterator[None]:
    """Install Kueue, and run Kueue until the block ends.

    Args:
        program: path of Kueue's manager.
        components: `config/components` of Kueue's module.
        changes: fields of the configuration; `featureGates` are merged with those of the tests.

    Raises:
        NotStartedError: if Kueue ended or took too long.
    """
    hook, health = find_free_ports(2)
    certificates = folder / "kueue-certificates"
    certificates.mkdir()
    install(client, components, hook)
    path = folder / "kueue.yaml"
    path.write_text(json.dumps(render_configuration(hook, health, certificates, changes)))
    log = folder / "kueue.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [program, f"--config={path}", "--zap-log-level=2"],
            env={**os.environ, "KUBECONFIG": str(kubeconfig)},
            stdout=out,
            stderr=out,
        )
    try:
        wait_until_ready(client, process, certificates, log)
        yield
    finally:
        process.kill()
        process.wait()


def render_configuration(hook: int, health: int, folder: Path, changes: Mapping[str, Any]) -> Json:
    """Render Kueue's configuration, without the visibility server (an aggregated API)."""
    gates = {"VisibilityOnDemand": False, **changes.get("featureGates", {})}
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": HOME,
        "health": {"healthProbeBindAddress": f"{LOOPBACK}:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": LOOPBACK, "port": hook, "certDir": str(folder)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {
            "enable": True,
            "webhookServiceName": SERVICE,
            "webhookSecretName": SECRET,
        },
        "integrations": {"frameworks": list(FRAMEWORKS)},
        **changes,
        "featureGates": gates,
    }


def install(client: KubeClient, components: Path, port: int) -> None:
    """Create the objects that Kueue's manager needs before its start."""
    client.ask("POST", "api/v1/namespaces", {"metadata": {"name": HOME}})
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SERVICE},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }
    client.ask("POST", f"api/v1/namespaces/{HOME}/services", service)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}}
    client.ask("POST", f"api/v1/namespaces/{HOME}/secrets", secret)
    for path in sorted((components / "crd" / "bases").glob("*.yaml")):
        body = yaml.safe_load(path.read_text("utf-8"))
        if body["spec"]["names"]["plural"] in CONVERTED:
            body["spec"]["conversion"] = render_conversion(port)
        apply(client, f"{DEFINITIONS}/{body['metadata']['name']}", body)
    text = (components / "webhook" / "manifests.yaml").read_text("utf-8")
    for body in filter(None, yaml.safe_load_all(text)):
        kind = "mutating" if body["kind"].startswith("Mutating") else "validating"
        body["metadata"] = {"name": f"kueue-{kind}-webhook-configuration"}
        body["webhooks"] = [hook for hook in body["webhooks"] if is_wanted(hook)]
        for hook in body["webhooks"]:
            path = hook["clientConfig"]["service"]["path"]
            hook["clientConfig"]["service"] = refer(port, path)
        apply(client, f"{HOOKS}/{kind}webhookconfigurations/{body['metadata']['name']}", body)


def is_wanted(hook: Json) -> bool:
    """Return True if a webhook is for Kueue's own kinds or for an enabled kind of job."""
    return any(
        "kueue.x-k8s.io" in rule["apiGroups"] or HOOKED & set(rule["resources"])
        for rule in hook["rules"]
    )


def render_conversion(port: int) -> Json:
    """Render the conversion webhook of a kind with several versions."""
    return {
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {"service": refer(port, "/convert")},
            "conversionReviewVersions": ["v1"],
        },
    }


def refer(port: int, path: str) -> Json:
    """Render the client configuration with which the API server calls Kueue."""
    return {"namespace": HOME, "name": SERVICE, "path": path, "port": port}


def apply(client: KubeClient, path: str, body: Json) -> None:
    """Apply an object on the server side."""
    query = {"fieldManager": "installer", "force": "true"}
    client.ask("PATCH", path, json.dumps(body).encode(), content=APPLY, query=query)


def wait_until_ready(
    client: KubeClient, process: subprocess.Popen[bytes], folder: Path, log: Path
) -> None:
    """Mount the certificate as a kubelet does, and wait until the webhooks use it.

    Raises:
        NotStartedError: if Kueue ended or took too long.
    """
    end = time.monotonic() + LONGEST
    while time.monotonic() < end and process.poll() is None:
        secret = client.ask("GET", f"api/v1/namespaces/{HOME}/secrets/{SECRET}")
        mount(folder, secret.get("data") or {})
        if answers(client):
            return
        time.sleep(PAUSE)
    lines = log.read_text(errors="replace").splitlines()[-LAST_LINES:]
    raise NotStartedError("\n".join(["Kueue did not start", *lines]))


def mount(folder: Path, data: Mapping[str, str]) -> None:
    """Write a Secret's files atomically, the key first, because Kueue waits for the certificate."""
    for name in sorted(data, reverse=True):
        content, path = base64.b64decode(data[name]), folder / name
        if not path.exists() or path.read_bytes() != content:
            new = folder / f"{name}.new"
            new.write_bytes(content)
            new.rename(path)


def answers(client: KubeClient) -> bool:
    """Return True if the server accepts a flavor, which only a working webhook admits."""
    flavor = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": "probe"},
    }
    path = "apis/kueue.x-k8s.io/v1beta2/resourceflavors"
    try:
        client.ask("POST", path, flavor, query={"dryRun": "All"})
    except Refusal:
        return False
    return True
