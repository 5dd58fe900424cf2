"""Commands of Strandline in a pod that has the volumes of a run where its head had them."""

from __future__ import annotations

from proving_ground.kube import Json, Kube
from proving_ground.waiting import wait_for

POD = "command"
SECONDS = 120
VOLUME, OUTPUT, CONFIG = "/var/lib/strandline", "/var/lib/strandline-output", "/etc/strandline"
STAGES = "/opt/stages"


def run_command(kube: Kube, image: str, config: str, ledger: str, output: str, *words: str) -> str:
    """What `strandline WORDS pipeline.yaml --volume ...` prints.

    Args:
        config: ConfigMap with the pipeline, as an attempt has it.
        ledger, output: claims.

    Raises:
        AssertionError: its exit code is not 0.
    """
    command = ["strandline", *words, f"{CONFIG}/pipeline.yaml", "--volume", VOLUME]
    kube.apply(_render(image, command, config, ledger, output))

    def look() -> str | None:
        pod = kube.find("pod", POD) or {}
        phase = str(pod.get("status", {}).get("phase", ""))
        return phase if phase in {"Succeeded", "Failed"} else None

    phase = wait_for(
        f"{' '.join(command)} has ended", look, SECONDS, lambda: kube.say("describe", "pod", POD)
    )
    said = kube.say("logs", POD)
    kube.say("delete", "pod", POD, "--grace-period=1")
    assert phase == "Succeeded", said
    return said


def _render(image: str, command: list[str], config: str, ledger: str, output: str) -> Json:
    mounts = {
        "ledger": VOLUME,
        "output": OUTPUT,
        "pipeline": CONFIG,
        "stages": STAGES,
        "tmp": "/tmp",  # noqa: S108 - the pod's own
    }
    confined = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {
        "name": POD,
        "image": image,
        "command": command,
        "env": [{"name": "PYTHONPATH", "value": STAGES}],
        "securityContext": confined,
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in mounts.items()],
    }
    volumes = [
        {"name": "ledger", "persistentVolumeClaim": {"claimName": ledger}},
        {"name": "output", "persistentVolumeClaim": {"claimName": output}},
        {"name": "pipeline", "configMap": {"name": config}},
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
