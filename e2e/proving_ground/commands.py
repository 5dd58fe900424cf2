"""Runs commands in a pod that mounts a run's volumes at the same paths as the head."""

from __future__ import annotations

from proving_ground.cluster.kube import Json, Kube
from proving_ground.waiting import wait_for

POD = "command"
SECONDS = 120
VOLUME, OUTPUT, CONFIG = "/var/lib/strandline", "/var/lib/strandline-output", "/etc/strandline"
STAGES = "/opt/stages"
# Security settings that the restricted profile requires of every container.
CONFINED: Json = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def run_command(
    kube: Kube, image: str, claims: tuple[str, str], command: list[str], config: str = ""
) -> str:
    """Run a command and return its output.

    Args:
        claims: claims for ledger and output.
        config: ConfigMap with the attempt's pipeline, for commands that read it.

    Raises:
        AssertionError: if the exit code is not 0.
    """
    kube.apply(_render(image, command, claims, config))

    def look() -> str | None:
        pod = kube.find("pod", POD) or {}
        phase = str(pod.get("status", {}).get("phase", ""))
        return phase if phase in {"Succeeded", "Failed"} else None

    phase = wait_for(
        f"{' '.join(command)} has ended", look, SECONDS, lambda: kube.call("describe", "pod", POD)
    )
    output = kube.call("logs", POD)
    kube.call("delete", "pod", POD, "--grace-period=1")
    assert phase == "Succeeded", output
    return output


def _render(image: str, command: list[str], claims: tuple[str, str], config: str) -> Json:
    mounts = {
        "ledger": VOLUME,
        "output": OUTPUT,
        "stages": STAGES,
        "tmp": "/tmp",  # noqa: S108 - the pod's own
    }
    if config:
        mounts["pipeline"] = CONFIG
    container = {
        "name": POD,
        "image": image,
        "command": command,
        "env": [{"name": "PYTHONPATH", "value": STAGES}],
        "securityContext": CONFINED | {"readOnlyRootFilesystem": True},
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in mounts.items()],
    }
    volumes: list[Json] = [
        {"name": "ledger", "persistentVolumeClaim": {"claimName": claims[0]}},
        {"name": "output", "persistentVolumeClaim": {"claimName": claims[1]}},
        *([{"name": "pipeline", "configMap": {"name": config}}] if config else []),
        {"name": "stages", "configMap": {"name": "tide"}},
        {"name": "tmp", "emptyDir": {}},
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": POD},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "securityContext": {"fsGroup": 1000},
            "containers": [container],
            "volumes": volumes,
        },
    }
