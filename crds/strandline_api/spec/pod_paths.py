"""What the pods of a Ray cluster hold before users add to them: containers, places, names.

The operator renders them from this, and a user that adds something is told here, before any pod is
made, that a name is taken. This room must not know how a pod is spelled.
"""

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

HEAD_CONTAINER: Final = "ray-head"
WORKER_CONTAINER: Final = "ray-worker"
SUBMITTER_CONTAINER: Final = "ray-job-submitter"
# KubeRay puts it into the head pod of a cluster that grows.
AUTOSCALER_CONTAINER: Final = "autoscaler"
CONTAINERS: Final = (HEAD_CONTAINER, WORKER_CONTAINER, SUBMITTER_CONTAINER)

VOLUME: Final = "/var/lib/strandline"
OUTPUT: Final = "/var/lib/strandline-output"
CONFIG: Final = "/etc/strandline"
# Keys of the ConfigMap that is mounted there: the pipeline; the pod's own template, from which a
# command after the run is given the same volumes, variables and user; and the labels and
# annotations that a pod of such a command must have.
MANIFEST: Final = "pipeline.yaml"
HEAD_TEMPLATE: Final = "head.json"
COMMAND_METADATA: Final = "command-metadata.json"
CODE: Final = "/var/lib/strandline-code"
# Claims of other pipelines, to be read; each in a folder of its name.
INPUTS: Final = "/var/lib/strandline-inputs"
INPUT_VOLUME_PREFIX: Final = "strandline-input-"
# No other volume may be mounted at these, nor below them.
RESERVED_PATHS: Final = (VOLUME, OUTPUT, CONFIG, CODE, "/tmp/ray")  # noqa: S108 - Ray's own place
# No other volume may be mounted at these; below them is room.
SHARED_PATHS: Final = ("/tmp", "/dev/shm")  # noqa: S108 - the pod's own
CODE_FILES_VOLUME: Final = "code-files"
CODE_FETCHED_VOLUME: Final = "code-fetched"
AUTOSCALER_TOKEN_VOLUME: Final = "autoscaler-token"  # noqa: S105 - a name
AUTOSCALER_SCRATCH_VOLUME: Final = "autoscaler-temporary"
# The last two are KubeRay's.
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
# By which a mesh is told whether to put a container of its own into a pod, and what keeps it out:
# such a container may never end, and none but pods of the mesh would reach the head.
ISTIO_KEYS: Final = ("sidecar.istio.io/inject", "istio.io/rev")
LINKERD_KEYS: Final = ("linkerd.io/inject",)
MESH_KEYS: Final = ISTIO_KEYS + LINKERD_KEYS
OUT_OF_ISTIO: Final = {"labels": {ISTIO_KEYS[0]: "false"}}
OUT_OF_LINKERD: Final = {"annotations": {LINKERD_KEYS[0]: "disabled"}}
OUT_OF_MESHES: Final = OUT_OF_ISTIO | OUT_OF_LINKERD
VARIABLE_PREFIXES: Final = ("STRANDLINE_", "RAY_")


def digest_config(data: Mapping[str, str]) -> str:
    """Return what stands for an attempt's ConfigMap, so that another of its name is known."""
    text = json.dumps(dict(data), sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
