"""Names in the generated pods of a Ray cluster: containers, paths, and volumes.

The operator renders pods with these names. If a user's object has a reserved name, validation fails
before any pod exists. This module must not depend on the format of a pod.
"""

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

HEAD_CONTAINER: Final = "ray-head"
WORKER_CONTAINER: Final = "ray-worker"
SUBMITTER_CONTAINER: Final = "ray-job-submitter"
# KubeRay adds this container to the head pod of an autoscaling cluster.
AUTOSCALER_CONTAINER: Final = "autoscaler"
CONTAINERS: Final = (HEAD_CONTAINER, WORKER_CONTAINER, SUBMITTER_CONTAINER)

VOLUME: Final = "/var/lib/strandline"
OUTPUT: Final = "/var/lib/strandline-output"
CONFIG: Final = "/etc/strandline"
# Keys of the ConfigMap mounted at `CONFIG`: the pipeline; the head's pod template, which provides
# volumes, variables, and the user for pods of later commands; and labels and annotations for these
# pods.
MANIFEST: Final = "pipeline.yaml"
HEAD_TEMPLATE: Final = "head.json"
COMMAND_METADATA: Final = "command-metadata.json"
CODE: Final = "/var/lib/strandline-code"
# Parent folder of other pipelines' claims. Each claim is mounted read-only in a folder of its name.
INPUTS: Final = "/var/lib/strandline-inputs"
INPUT_VOLUME_PREFIX: Final = "strandline-input-"
# No other volume may be mounted at or below these paths.
RESERVED_PATHS: Final = (VOLUME, OUTPUT, CONFIG, CODE, "/tmp/ray")  # noqa: S108 - Ray's own place
# No other volume may be mounted at these paths, but mounts below them are allowed.
SHARED_PATHS: Final = ("/tmp", "/dev/shm")  # noqa: S108 - the pod's own
CODE_FILES_VOLUME: Final = "code-files"
CODE_FETCHED_VOLUME: Final = "code-fetched"
AUTOSCALER_TOKEN_VOLUME: Final = "autoscaler-token"  # noqa: S105 - a name
AUTOSCALER_SCRATCH_VOLUME: Final = "autoscaler-temporary"
# KubeRay adds the last two volumes.
VOLUME_NAMES: Final = (
    "ledger",
    "temporary",
    "memory",
    "pipeline",
    "output",
    CODE_FILES_VOLUME,
    CODE_FETCHED_VOLUME,
    AUTOSCALER_TOKEN_VOLUME,
    AUTOSCALER_SCRATCH_VOLUME,
    "ray-logs",
    "shared-mem",
)
# Labels and annotations that control a service mesh's sidecar injection, and the values that
# disable it. A sidecar may never exit, and only pods in the mesh could reach the head.
ISTIO_KEYS: Final = ("sidecar.istio.io/inject", "istio.io/rev")
LINKERD_KEYS: Final = ("linkerd.io/inject",)
MESH_KEYS: Final = ISTIO_KEYS + LINKERD_KEYS
OUT_OF_ISTIO: Final = {"labels": {ISTIO_KEYS[0]: "false"}}
OUT_OF_LINKERD: Final = {"annotations": {LINKERD_KEYS[0]: "disabled"}}
OUT_OF_MESHES: Final = OUT_OF_ISTIO | OUT_OF_LINKERD
VARIABLE_PREFIXES: Final = ("STRANDLINE_", "RAY_")


def digest_config(data: Mapping[str, str]) -> str:
    """Return a digest that distinguishes ConfigMaps of the same name by their content."""
    # The order of keys must not change the digest.
    text = json.dumps(dict(data), sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
