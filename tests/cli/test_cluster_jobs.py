"""The Job of a command that needs a claim: its pod, its writable volumes, and its placement."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from cluster_objects import (
    make_config,
    make_pod,
    read_attempt_object,
    read_pipeline_object,
)
from strandline.cli.cluster.copies import NotCopiedError, locate_copy, render_tar
from strandline.cli.cluster.job import JobOrder, render_job, separate_errors
from strandline.cli.cluster.objects import find_holders
from strandline.cli.cluster.placement import (
    ClaimUse,
    HeldClaimError,
    JobPlacement,
    choose_placement,
    find_output,
)
from strandline_api.names import PIPELINE_LABEL, PIPELINE_UID_LABEL, SUBDOMAIN

AT_REST = JobPlacement(node="", writes_ledger=False, writes_output=False)
WORDS = ("strandline", "verify", "/etc/strandline/pipeline.yaml")


def render(placement: JobPlacement = AT_REST, words: Any = WORDS, **spec: Any) -> dict[str, Any]:
    head = json.loads(make_config(**spec)["data"]["head.json"])
    return render_job(JobOrder("verify", words, read_pipeline_object(), head, placement))


def pod_of(job: dict[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = job["spec"]["template"]["spec"]
    return pod


def mounts_of(job: dict[str, Any]) -> dict[str, bool]:
    (container,) = pod_of(job)["containers"]
    return {mount["mountPath"]: bool(mount.get("readOnly")) for mount in container["volumeMounts"]}


def test_a_job_ends_by_itself_and_is_deleted_with_its_pipeline() -> None:
    job = render()
    spec = job["spec"]
    assert (spec["backoffLimit"], spec["template"]["spec"]["restartPolicy"]) == (0, "Never")
    assert spec["ttlSecondsAfterFinished"] == 300
    assert spec["activeDeadlineSeconds"] > 0
    (owner,) = job["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("CurationPipeline", "corpus", "uid-p")
    assert job["metadata"]["namespace"] == "team"


@pytest.mark.parametrize(("cpu", "request_of_cpu"), [(2, "250m"), (0.1, "0.1")])
def test_a_job_has_a_cpu_limit_that_a_quota_may_require(cpu: float, request_of_cpu: str) -> None:
    """The limit is that of the head, which the namespace has already admitted."""
    (container,) = pod_of(render(ray={"head": {"resources": {"cpu": cpu}}}))["containers"]
    assert container["resources"]["limits"] == {"memory": "2Gi", "cpu": f"{cpu:g}"}
    assert container["resources"]["requests"]["cpu"] == request_of_cpu


def test_operators_do_not_mistake_its_pod_for_an_attempts() -> None:
    """Operators select an attempt's pods by labels, so such a pod would delay an attempt."""
    job = render()
    for labels in (job["metadata"]["labels"], job["spec"]["template"]["metadata"]["labels"]):
        assert not {PIPELINE_UID_LABEL, PIPELINE_LABEL}.intersection(labels)
        assert labels["strandline.dev/command"] == "verify"
        assert all(len(value) <= 63 for value in labels.values())


@pytest.mark.parametrize("name", ["corpus", "a" * 253, "9.dots.and-digits", "x-0123456789abcdef"])
def test_names_and_labels_are_valid(name: str) -> None:
    head = json.loads(make_config()["data"]["head.json"])
    pipeline = read_pipeline_object()
    named = type(pipeline)(
        **{**{field: getattr(pipeline, field) for field in pipeline.__slots__}, "name": name}
    )
    job = render_job(JobOrder("move-outputs", WORDS, named, head, AT_REST))
    prefix = job["metadata"]["generateName"]
    assert len(prefix) + 5 <= 63
    assert re.fullmatch(r"[a-z]([-a-z0-9]*)?-", prefix)
    for value in job["metadata"]["labels"].values():
        assert len(value) <= 63
        assert SUBDOMAIN.fullmatch(value)


def test_its_pod_is_restricted_and_has_no_rights() -> None:
    pod = pod_of(render())
    assert pod["automountServiceAccountToken"] is False
    security = pod["securityContext"]
    assert security["runAsNonRoot"] is True
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"}.intersection(pod)
    assert not {"ports", "lifecycle", "livenessProbe", "readinessProbe"}.intersection(container)


def test_a_job_has_the_heads_environment() -> None:
    job = render(
        ray={
            "image": "registry.example/runtime:1",
            "imagePullSecrets": [{"name": "registry"}],
            "serviceAccountName": "reader",
            "env": [{"name": "AWS_REGION", "value": "eu"}],
            "envFrom": [{"secretRef": {"name": "s3"}}],
            "volumes": [{"name": "keys", "secret": {"secretName": "s3"}}],
            "volumeMounts": [{"name": "keys", "mountPath": "/etc/keys", "readOnly": True}],
            "podTemplate": {"spec": {"nodeSelector": {"pool": "batch"}}},
        },
        storage={"output": {"claimName": "shared"}},
    )
    pod = pod_of(job)
    (container,) = pod["containers"]
    assert container["image"] == "registry.example/runtime:1"
    assert container["envFrom"] == [{"secretRef": {"name": "s3"}}]
    assert {"name": "AWS_REGION", "value": "eu"} in container["env"]
    assert pod["serviceAccountName"] == "reader"
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["nodeSelector"] == {"pool": "batch"}
    assert mounts_of(job) == {
        "/tmp": False,  # noqa: S108 - the pod's own
        "/var/lib/strandline": True,
        "/var/lib/strandline-output": True,
        "/etc/strandline": True,
        "/etc/keys": True,
    }
    assert {volume["name"] for volume in pod["volumes"]} == {
        "temporary",
        "ledger",
        "output",
        "pipeline",
        "keys",
    }
    assert not [each for each in container["env"] if each["name"] == "STRANDLINE_ATTEMPT"]


def test_code_is_fetched_as_for_the_run() -> None:
    digest = "0" * 64
    archive = {"url": "https://example.com/a.zip", "sha256": digest}
    pod = pod_of(render(code={"archive": archive}))
    (fetching,) = pod["initContainers"]
    assert fetching["command"][:2] == ["strandline", "fetch-code"]
    (container,) = pod["containers"]
    assert "PYTHONPATH" in {each["name"] for each in container["env"]}
    assert "code-fetched" in {volume["name"] for volume in pod["volumes"]}


@pytest.mark.parametrize(
    ("placement", "ledger", "output"),
    [
        (AT_REST, True, True),
        (JobPlacement("", writes_ledger=True, writes_output=False), False, True),
        (JobPlacement("", writes_ledger=False, writes_output=True), True, False),
    ],
)
def test_only_written_volumes_are_mounted_writable(
    placement: JobPlacement, ledger: bool, output: bool
) -> None:
    mounts = mounts_of(render(placement, storage={"output": {"claimName": "shared"}}))
    assert (mounts["/var/lib/strandline"], mounts["/var/lib/strandline-output"]) == (ledger, output)


def test_a_job_is_scheduled_to_the_node_with_the_claim() -> None:
    job = render(JobPlacement("node-1", writes_ledger=True, writes_output=False))
    affinity = pod_of(job)["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {
        "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]
    }
    assert "nodeName" not in pod_of(job)
    assert "affinity" not in pod_of(render())


def test_words_are_not_expanded_as_variables_or_by_the_shell() -> None:
    words = separate_errors(["strandline", "release", "$(PATH) `id`; rm"])
    (container,) = pod_of(render(words=words))["containers"]
    assert container["command"] == [
        "/bin/sh",
        "-c",
        'exec "$@" 2>/dev/termination-log',
        "strandline",
        "strandline",
        "release",
        "$$(PATH) `id`; rm",
    ]


HEAD = make_pod("corpus-1-head", claim="corpus-ledger", role="head")
OTHER = make_pod("another-job", claim="corpus-ledger", pipeline_uid="")
ENDED = make_pod("corpus-0-head", "Succeeded", claim="corpus-ledger", role="head")
ELSEWHERE = make_pod("loader", claim="another-claim", role="head")
RUNNING = {"phase": "Running"}


def place(
    use: ClaimUse,
    *pods: dict[str, Any],
    mode: str = "ReadWriteOnce",
    output: str | None = "s3://corpus/clean",
    **status: Any,
) -> JobPlacement:
    holders = find_holders(pods, "corpus-ledger", "uid-p")
    attempt = read_attempt_object(1, **status)
    return choose_placement(use, read_pipeline_object(), attempt, [mode], holders, output)


@pytest.mark.parametrize(
    ("use", "pods", "expected"),
    [
        (ClaimUse.READ, (), ("", False, False)),
        (ClaimUse.READ, (ENDED, ELSEWHERE), ("", False, False)),
        (ClaimUse.READ, (HEAD,), ("node-of-corpus-1-head", True, False)),
        (ClaimUse.READ, (OTHER, HEAD), ("node-of-corpus-1-head", True, False)),
        (ClaimUse.READ, (OTHER,), ("node-of-another-job", False, False)),
        (ClaimUse.COPY, (HEAD,), ("node-of-corpus-1-head", False, False)),
        (ClaimUse.OUTPUT, (), ("", False, True)),
        (ClaimUse.WRITE, (), ("", True, False)),
        (ClaimUse.WRITE, (OTHER,), ("node-of-another-job", True, False)),
    ],
)
def test_a_job_runs_where_the_claim_is(
    use: ClaimUse, pods: tuple[dict[str, Any], ...], expected: tuple[str, bool, bool]
) -> None:
    assert place(use, *pods) == expected


def test_outputs_on_the_ledgers_claim_are_written_there() -> None:
    assert place(ClaimUse.OUTPUT, output=None).writes_ledger


@pytest.mark.parametrize(
    ("pods", "status"), [((HEAD,), {}), ((), RUNNING), ((), {"phase": "TearingDown"})]
)
def test_writing_commands_are_refused_during_an_attempt(
    pods: tuple[dict[str, Any], ...], status: dict[str, Any]
) -> None:
    with pytest.raises(HeldClaimError, match=r"^attempt 1 of corpus is running .* suspend corpus"):
        place(ClaimUse.WRITE, *pods, **status)


def test_a_wait_for_a_single_pod_claim_names_the_claim() -> None:
    with pytest.raises(HeldClaimError, match=r"one pod .*`kubectl wait --for=delete pod/corpus"):
        place(ClaimUse.READ, HEAD, mode="ReadWriteOncePod")
    assert place(ClaimUse.READ, ENDED, mode="ReadWriteOncePod").node == ""


@pytest.mark.parametrize(
    ("storage", "path", "expected"),
    [
        ({}, "output", "/var/lib/strandline/team/corpus/output"),
        ({}, "latest/a.json", "/var/lib/strandline/team/corpus/latest/a.json"),
        ({"claimName": "shared"}, "output/x", "/var/lib/strandline-output/team/corpus/x"),
        ({"url": "s3://a/b"}, "latest", "/var/lib/strandline/team/corpus/latest"),
    ],
)
def test_copies_come_from_the_place_of_outputs(
    storage: dict[str, str], path: str, expected: str
) -> None:
    document = json.loads(make_config(storage={"output": storage})["data"]["pipeline.yaml"])
    assert locate_copy(read_pipeline_object(), document, path) == expected
    assert render_tar(expected)[-1] == expected


@pytest.mark.parametrize("path", ["../other", "latest/../../x", "/etc/passwd", "."])
def test_paths_outside_the_folder_are_not_copied(path: str) -> None:
    document = json.loads(make_config()["data"]["pipeline.yaml"])
    with pytest.raises(NotCopiedError, match="not a path in the folder of corpus"):
        locate_copy(read_pipeline_object(), document, path)


def test_outputs_at_a_url_are_named() -> None:
    document = json.loads(
        make_config(storage={"output": {"url": "s3://a/b"}})["data"]["pipeline.yaml"]
    )
    assert find_output(document) == "s3://a/b"
    with pytest.raises(NotCopiedError, match="at s3://a/b, not on a claim"):
        locate_copy(read_pipeline_object(), document, "output")


def test_whoever_asks_lends_the_pod_no_right_over_a_node() -> None:
    """The pipeline's author must not gain rights of the user who runs the command."""
    template = {
        "spec": {
            "hostPID": True,
            "hostNetwork": True,
            "volumes": [
                {"name": "node", "hostPath": {"path": "/"}},
                {"name": "words", "emptyDir": {}},
            ],
            "containers": [
                {
                    "name": "ray-head",
                    "securityContext": {"privileged": True, "runAsUser": 7},
                    "volumeMounts": [
                        {"name": "node", "mountPath": "/node"},
                        {"name": "words", "mountPath": "/words"},
                    ],
                }
            ],
        }
    }
    ray = {"workerGroups": [{"name": "cpu"}], "head": {"podTemplate": template}}
    pod = pod_of(render(ray=ray))
    assert not {"hostPID", "hostNetwork"} & pod.keys()
    (container,) = pod["containers"]
    security = container["securityContext"]
    assert "privileged" not in security
    assert (security["runAsUser"], security["allowPrivilegeEscalation"]) == (7, False)
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert not any("hostPath" in volume for volume in pod["volumes"])
    assert "/words" in mounts_of({"spec": {"template": {"spec": pod}}})
    assert "/node" not in mounts_of({"spec": {"template": {"spec": pod}}})
