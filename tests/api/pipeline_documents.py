"""Provides pipelines for tests: a small valid document, and a strategy for all valid documents."""

import copy
from typing import Any

from hypothesis import strategies as st

from strandline_api.outcome.causes import RETRYABLE_CAUSES

SMALLEST: dict[str, Any] = {
    "apiVersion": "strandline.dev/v1alpha1",
    "kind": "CurationPipeline",
    "metadata": {"name": "corpus"},
    "spec": {
        "source": {"use": "read-files", "with": {"glob": "*.txt"}},
        "stages": [{"use": "min-words"}, {"use": "my_stages.text:FixUnicode"}],
        "sink": {"use": "write-parquet"},
    },
}


def with_change(path: str, value: object) -> dict[str, Any]:
    """Return the small document with one field set, such as `spec.stages.0.batchSize`."""
    document = copy.deepcopy(SMALLEST)
    *parents, last = path.split(".")
    node: Any = document
    for part in parents:
        node = node[int(part)] if isinstance(node, list) else node.setdefault(part, {})
    node[int(last) if isinstance(node, list) else last] = value
    return document


def without(path: str) -> dict[str, Any]:
    """Return the small document without one field."""
    document = copy.deepcopy(SMALLEST)
    *parents, last = path.split(".")
    node: Any = document
    for part in parents:
        node = node[part]
    del node[last]
    return document


labels = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
classes = st.from_regex(r"[a-z_]{1,8}(\.[a-z_]{1,8}){0,2}:[A-Z][A-Za-z0-9_]{0,12}", fullmatch=True)
durations = st.one_of(
    st.integers(1, 10**6),
    st.from_regex(r"[1-9][0-9]{0,2}(ms|s|m|h|d)([1-9](s|m)){0,2}", fullmatch=True),
)
amounts = st.one_of(
    st.integers(1, 2**40), st.from_regex(r"[1-9][0-9]{0,2}([kMGTP]|[KMGTP]i)?", fullmatch=True)
)
numbers = st.one_of(st.integers(0, 64), st.floats(0, 64, allow_nan=False))
free_objects = st.dictionaries(
    st.text(max_size=8),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(-1e9, 1e9) | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner),
        max_leaves=4,
    ),
    max_size=3,
)


def objects(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy for objects in which each field may be absent."""
    return st.fixed_dictionaries({}, optional=fields)


_resources = objects(
    cpu=numbers, memory=amounts, gpu=numbers, custom=st.dictionaries(labels, numbers, max_size=2)
)
_workers = st.one_of(
    objects(min=st.integers(1, 9)),
    objects(max=st.integers(1, 9)),
    st.integers(1, 9).map(lambda least: {"min": least, "max": least + 3}),
)


def _items(index: int, **more: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    # Add the index, so that names are unique. Tests of names cover duplicates.
    names = labels.map(lambda label: f"{index}-{label}")
    optional = {"with": free_objects, "resources": _resources, "workers": _workers, **more}
    optional["runtimeEnv"] = free_objects
    required = {"use": labels | classes, "name": names}
    return st.fixed_dictionaries(required, optional=optional)


@st.composite
def _specs(draw: st.DrawFn) -> dict[str, Any]:
    count = draw(st.integers(0, 3))
    batch, group = st.integers(1, 64), st.integers(1, 9)
    work = {
        "source": draw(_items(0)),
        "stages": [draw(_items(at + 1, batchSize=batch, group=group)) for at in range(count)],
        "sink": draw(_items(count + 1, batchSize=batch)),
    }
    return work | draw(_policies) | draw(_cluster)


_policies = objects(
    checkpoint=objects(interval=durations, keepLast=st.integers(1, 9), gracePeriod=durations),
    retry=objects(
        maxRetries=st.integers(0, 9),
        backoff=st.sampled_from(["fixed", "exponential"]),
        delay=durations,
        multiplier=st.integers(1, 9),
        maxDelay=st.none() | durations,
        jitter=st.sampled_from(["none", "deterministic", "random"]),
        jitterRatio=st.floats(0, 1),
        eligibleCauses=st.lists(st.sampled_from([str(c) for c in RETRYABLE_CAUSES]), unique=True),
        disruptions=objects(maxRetries=st.integers(0, 9)),
        resetOnProgress=st.booleans(),
        maxAttempts=st.integers(1, 9),
        emitRetryEvents=st.booleans(),
    ),
    quarantine=objects(
        after=st.integers(1, 9),
        tolerate=st.integers(0, 99) | st.integers(0, 100).map(lambda share: f"{share}%"),
    ),
    oom=objects(memoryFactor=st.floats(1, 9), maxMemory=amounts),
    onChange=st.sampled_from(["Fail", "Restart", "Continue"]),
    deadlines=objects(attempt=durations, preRunning=durations, run=durations, stall=durations),
    after=st.lists(
        st.fixed_dictionaries({"name": labels.map("z{}".format)}, optional={"runId": labels}),
        max_size=2,
        unique_by=lambda each: str(each["name"]),
    ),
    suspend=st.booleans(),
    runId=labels,
    attemptHistoryLimit=st.integers(1, 9),
    ttlAfterFinished=durations,
    onWorkerLoss=objects(oom=st.sampled_from(["Recreate", "Absorb"])),
)
_pods = {
    "resources": objects(cpu=numbers, memory=amounts, gpu=st.integers(0, 8)),
    "rayStartParams": st.dictionaries(labels, st.text(max_size=4), max_size=2),
    "podTemplate": free_objects,
}
_groups = st.builds(
    lambda name, rest: {"name": name, **rest}, labels, objects(minReplicas=st.just(2), **_pods)
)
_names = labels.map(lambda label: f"V{label}")
_variables = st.one_of(
    st.builds(lambda name, value: {"name": name, "value": value}, _names, st.text(max_size=4)),
    st.builds(
        lambda name, of: {"name": name, "valueFrom": {of: {"name": "keys", "key": "k"}}},
        _names,
        st.sampled_from(["secretKeyRef", "configMapKeyRef"]),
    ),
    st.builds(
        lambda name: {"name": name, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        _names,
    ),
)
_variable_sources = st.builds(
    lambda of, name: {of: {"name": name}}, st.sampled_from(["secretRef", "configMapRef"]), labels
)
# Start names with `x`, because the operator's volumes have other names.
_volumes = st.builds(
    lambda name, kind: {"name": f"x{name}"[:63], **kind},
    labels,
    st.sampled_from(
        [
            {},
            {"emptyDir": {}},
            {"secret": {"secretName": "s", "defaultMode": 256}},
            {"configMap": {"name": "c", "items": [{"key": "k", "path": "p"}]}},
            {"persistentVolumeClaim": {"claimName": "d"}},
        ]
    ),
)
_by_name: dict[str, Any] = {
    "max_size": 2,
    "unique_by": lambda one: str(one["name"]),
}
_cluster = objects(
    code=objects(
        configMap=labels,
        archive=st.just({"url": "s3://bucket/code.zip", "sha256": 8 * "0123cdef"}),
        packages=st.just(["langdetect==1.0.9"]),
    ),
    storage=objects(
        ledger=objects(claimName=labels) | objects(size=amounts, storageClassName=labels),
        output=objects(url=st.just("s3://bucket/corpus")) | objects(claimName=labels),
        retention=st.sampled_from(["Retain", "Delete"]),
    ),
    ray=objects(
        image=st.just("registry.example/strandline:1"),
        head=objects(**_pods),
        workerGroups=st.lists(_groups, max_size=2, unique_by=lambda group: str(group["name"])),
        env=st.lists(_variables, **_by_name),
        envFrom=st.lists(_variable_sources, max_size=2),
        volumes=st.lists(_volumes, **_by_name),
        queueName=labels,
        queuePriorityClass=labels,
        authOptions=st.just({"mode": "token"}),
        gcsFaultToleranceOptions=st.just({"redisAddress": "redis:6379"}),
        imagePullSecrets=st.lists(
            st.builds(lambda name: {"name": name}, labels), max_size=2, unique_by=str
        ),
        submissionMode=st.sampled_from(["K8sJobMode", "SidecarMode"]),
    ),
)
pipelines: st.SearchStrategy[dict[str, Any]] = st.builds(
    # Start names with `a`, so that they differ from the names of predecessors.
    lambda name, spec: {**SMALLEST, "metadata": {"name": f"a{name}"}, "spec": spec},
    labels,
    _specs(),
)
