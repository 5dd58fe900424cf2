"""The stand-in makes the same objects from a RayJob as KubeRay, as far as recordings show them.

`s-k-success-made.json` is taken from the recording s-k-success. The file has the submitted RayJob,
and the recorded parts of each object made for the RayJob, with cut scripts.
`v-no-ray-version-probes.json` has the probes of v-no-ray-version, and those of the following
attempt with a version: by version, then by role.
"""

from __future__ import annotations

import copy
import json
import re
import shlex
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kuberay_standin.objects import Json
from kuberay_standin.rayclusters.pods import (
    SHARED_MEMORY,
    has_one_answer,
    make_head,
    make_job_service,
    make_service,
    make_worker,
)
from kuberay_standin.rayclusters.quantities import format_bytes, format_count, read_quantity
from kuberay_standin.rayclusters.status import describe_cluster
from kuberay_standin.rayjobs.jobs import make_cluster, make_job, render_script

RECORDED: Json = json.loads(
    (Path(__file__).parent / "s-k-success-made.json").read_text(encoding="utf-8")
)
MADE = RECORDED["made"]
PROBES: Json = json.loads(
    (Path(__file__).parent / "v-no-ray-version-probes.json").read_text(encoding="utf-8")
)
CUT = "... (script made by KubeRay, cut)"


@pytest.fixture
def rayjob() -> Json:
    body = copy.deepcopy(RECORDED["submitted"])
    body["metadata"]["uid"] = "uid-of-rj"
    body["status"] = {"rayClusterName": MADE["RayCluster"]["name"], "jobId": "rj-x4r7b"}
    return dict(body)


@pytest.fixture
def cluster(rayjob: Json) -> Json:
    body = make_cluster(rayjob)
    body["metadata"]["uid"] = "uid-of-the-cluster"
    return body


def test_the_raycluster_has_the_recorded_labels_and_annotations(cluster: Json) -> None:
    check_metadata(cluster, MADE["RayCluster"])
    assert cluster["metadata"]["name"] == MADE["RayCluster"]["name"]
    assert cluster["spec"] == RECORDED["submitted"]["spec"]["rayClusterSpec"]


def test_the_head_pod_equals_the_recorded_pod(cluster: Json) -> None:
    check_pod(make_head(cluster), MADE["head"])


def test_a_worker_pod_equals_the_recorded_pod(cluster: Json) -> None:
    (group,) = cluster["spec"]["workerGroupSpecs"]
    check_pod(make_worker(cluster, group, 0), MADE["worker"])


def test_the_job_and_its_pod_equal_the_recorded_objects(rayjob: Json, cluster: Json) -> None:
    job = make_job(rayjob, cluster)
    check_metadata(job, MADE["Job"])
    assert job["spec"]["backoffLimit"] == MADE["Job"]["spec"]["backoffLimit"]
    template = job["spec"]["template"]
    recorded = copy.deepcopy(MADE["submitter"])
    # The Job controller sets these labels.
    others = {name for name in recorded["labels"] if "controller-uid" in name or "job-name" in name}
    recorded["labels"] = {n: v for n, v in recorded["labels"].items() if n not in others}
    assert template["metadata"]["labels"] == recorded["labels"]
    check_spec(template["spec"], recorded["spec"])


def test_without_a_template_the_submitter_has_kuberays_requests(
    rayjob: Json, cluster: Json
) -> None:
    del rayjob["spec"]["submitterPodTemplate"]
    del rayjob["spec"]["submitterConfig"]
    job = make_job(rayjob, cluster)
    assert job["spec"]["backoffLimit"] == 2
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "500m", "memory": "200Mi"}
    assert container["image"] == "localhost/ray-dev:2.60.0"


def test_the_status_of_a_ready_raycluster_equals_the_recorded_status(cluster: Json) -> None:
    pods = []
    for role in ("head", "worker"):
        (group,) = cluster["spec"]["workerGroupSpecs"]
        pod = make_head(cluster) if role == "head" else make_worker(cluster, group, 0)
        pod["metadata"]["name"] = MADE[role]["name"]
        pods.append({**pod, "status": MADE[role]["status"]})
    now = datetime(2026, 11, 21, 10, 26, 15, tzinfo=UTC)
    status, recorded = describe_cluster(cluster, pods, now), RECORDED["clusterStatus"]
    assert drop_times(status) == drop_times(recorded)
    assert status["stateTransitionTimes"] == recorded["stateTransitionTimes"]


def test_the_service_resolves_to_the_head_before_it_is_ready(cluster: Json) -> None:
    service = make_service(cluster)
    assert service["metadata"]["name"] == RECORDED["clusterStatus"]["head"]["serviceName"]
    ports = {port["name"]: str(port["port"]) for port in service["spec"]["ports"]}
    assert ports == RECORDED["clusterStatus"]["endpoints"]
    assert service["spec"]["clusterIP"] == "None"
    labels = make_head(cluster)["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()


@pytest.mark.parametrize("version", ["", "2.60.0"])
@pytest.mark.parametrize("role", ["head", "worker"])
@pytest.mark.parametrize("kind", ["readinessProbe", "livenessProbe"])
def test_the_probes_equal_the_recorded_probes(
    cluster: Json, version: str, role: str, kind: str
) -> None:
    """Check probes, which use `wget` inside the container if Ray's version is unknown."""
    cluster["spec"].pop("rayVersion", None)
    cluster["spec"] |= {"rayVersion": version} if version else {}
    (group,) = cluster["spec"]["workerGroupSpecs"]
    pod = make_head(cluster) if role == "head" else make_worker(cluster, group, 0)
    assert describe_probe(pod["spec"]["containers"][0][kind]) == describe_probe(
        PROBES[version][role][kind]
    )


def describe_probe(probe: Json) -> Json:
    """Return times, bounds, and the request of a probe; reduce scripts to their addresses."""
    usual = {"successThreshold": 1}
    found = {**usual, **{name: value for name, value in probe.items() if name != "exec"}}
    if "exec" in probe:
        shell, flag, script = probe["exec"]["command"]
        found["asked"] = [shell, flag, *re.findall(r"wget|http://[^ ]+|success", script)]
    if "httpGet" in probe:
        found["httpGet"] = {name: probe["httpGet"][name] for name in ("path", "port")}
    return found


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("2.53.0", True),
        ("v2.60", True),
        ("3.0.0", True),
        ("2.53.0.dev0", True),
        ("2.52.9", False),
        ("nightly", False),
        ("", False),
    ],
)
def test_an_unparsable_version_counts_as_old(version: str, *, expected: bool) -> None:
    assert has_one_answer(version) == expected


def test_probes_use_rays_configured_ports(cluster: Json) -> None:
    cluster["spec"].pop("rayVersion", None)
    head = cluster["spec"]["headGroupSpec"]
    head["rayStartParams"] = {"dashboard-agent-listen-port": "1234", "dashboard-port": "5678"}
    (made,) = make_head(cluster)["spec"]["containers"]
    script = made["readinessProbe"]["exec"]["command"][-1]
    assert re.findall(r"localhost:(\d+)", script) == ["1234", "5678"]


def test_the_raycluster_has_the_labels_of_its_rayjob(rayjob: Json) -> None:
    rayjob["metadata"]["labels"] = {"strandline.dev/attempt": "1"}
    labels = make_cluster(rayjob)["metadata"]["labels"]
    assert labels["strandline.dev/attempt"] == "1"
    assert labels["ray.io/originated-from-crd"] == "RayJob"


def test_the_service_of_a_rayjob_selects_its_head_too(rayjob: Json, cluster: Json) -> None:
    service = make_job_service(rayjob, cluster)
    assert service["metadata"]["name"] == "rj-head-svc"
    assert service["metadata"]["ownerReferences"][0]["uid"] == "uid-of-rj"
    assert service["spec"] == make_service(cluster)["spec"]


def test_settings_of_the_template_are_kept(cluster: Json) -> None:
    container = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    container["readinessProbe"] = {"exec": {"command": ["true"]}}
    container["env"].append({"name": "RAY_PORT", "value": "1"})
    container["volumeMounts"].append({"name": "memory", "mountPath": SHARED_MEMORY})
    (made,) = make_head(cluster)["spec"]["containers"]
    assert made["readinessProbe"] == container["readinessProbe"]
    assert made["lifecycle"] == container["lifecycle"]
    assert [one["value"] for one in made["env"] if one["name"] == "RAY_PORT"] == ["1"]
    assert [mount["mountPath"] for mount in made["volumeMounts"]].count(SHARED_MEMORY) == 1


def test_the_scripts_are_bash() -> None:
    script = render_script("http://10.0.0.7:8265", "rj-1", "python 'a b.py' --x")
    bash = shutil.which("bash") or "bash"
    done = subprocess.run([bash, "-n", "-c", script], check=False, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    (submit,) = (line for line in script.splitlines() if "job submit" in line)
    assert shlex.split(submit)[-3:] == ["python", "a b.py", "--x"]


@pytest.mark.parametrize(
    ("texts", "spell", "expected"),
    [
        (["50m", "50m"], format_count, "100m"),
        (["1", "500m", "0.5"], format_count, "2"),
        ([], format_count, "0"),
        (["2Gi", "1536Mi"], format_bytes, "3584Mi"),
        (["1G"], format_bytes, "1000000000"),
        (["2147483648"], format_bytes, "2Gi"),
        ([], format_bytes, "0"),
    ],
)
def test_quantities_add_up(texts: list[str], spell: Any, expected: str) -> None:
    assert spell(sum((read_quantity(text) for text in texts), read_quantity("0"))) == expected


def check_metadata(made: Json, recorded: Json) -> None:
    assert made["metadata"]["labels"] == recorded["labels"]
    assert (made["metadata"].get("annotations") or {}) == recorded["annotations"]
    (mine,), (theirs,) = made["metadata"]["ownerReferences"], recorded["ownerReferences"]
    assert {name: mine[name] for name in theirs} == theirs


def check_pod(made: Json, recorded: Json) -> None:
    check_metadata(made, recorded)
    assert recorded["name"].startswith(made["metadata"]["generateName"])
    check_spec(made["spec"], recorded["spec"])


def check_spec(made: Json, recorded: Json) -> None:
    assert made["restartPolicy"] == recorded["restartPolicy"]
    usual = made.get("terminationGracePeriodSeconds", 30)
    assert usual == recorded["terminationGracePeriodSeconds"]
    for kind in ("containers", "initContainers"):
        for mine, theirs in zip(made.get(kind, ()), recorded[kind], strict=True):
            check_container(mine, theirs)


def check_container(made: Json, recorded: Json) -> None:
    """Check a container, of whose probes and hooks the recorder kept only the presence."""
    for name, value in recorded.items():
        if name in {"livenessProbe", "readinessProbe"}:
            assert (name in made) == value
        elif name == "preStop":
            assert ("preStop" in made.get("lifecycle", {})) == value
        elif name == "args" and CUT in value[0]:
            assert len(made["args"]) == 1
        else:
            assert made[name] == value, name


def drop_times(status: Json) -> Json:
    conditions = [{**condition, "lastTransitionTime": ""} for condition in status["conditions"]]
    return {**status, "conditions": conditions, "lastUpdateTime": ""}
