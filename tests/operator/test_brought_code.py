"""Code that a pipeline provides: how pods get the code, and what is reported if code is missing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from simulated_cluster import SimulatedCluster
from strandline_api.outcome.driver_outcome import DriverOutcome, format_outcome_line
from strandline_api.status.reasons import ConditionType
from strandline_operator.model.code import CodeFiles
from strandline_operator.model.plan import Resource

Json = dict[str, Any]
FILES = CodeFiles({"mystages.py": "MIN = 5\n"}, {"table.bin": "AAE="})
ARCHIVE = {"url": "https://example.com/code.zip", "sha256": "0" * 64, "path": "code-1/src"}
FOLDER = "/var/lib/strandline-code"


def begin(code: Json, files: CodeFiles | None = None, **spec: Any) -> SimulatedCluster:
    """Return a pipeline with its own code, after the operator's first passes."""
    cluster = SimulatedCluster(code=files)
    cluster.edit(code=code, **spec)
    cluster.settle()
    return cluster


def pods_of(cluster: SimulatedCluster) -> dict[str, Json]:
    """Return the pod specs of the newest RayJob by role."""
    spec = cluster.list_of(Resource.RAYJOB)[-1]["spec"]
    templates = {
        "head": spec["rayClusterSpec"]["headGroupSpec"]["template"],
        "worker": spec["rayClusterSpec"]["workerGroupSpecs"][0]["template"],
        "submitter": spec["submitterPodTemplate"],
    }
    return {name: template["spec"] for name, template in templates.items()}


def variables_of(container: Json) -> dict[str, Any]:
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container["env"]}


def maps_of(cluster: SimulatedCluster) -> dict[str, Json]:
    return {
        config_map["metadata"]["name"]: config_map
        for config_map in cluster.list_of(Resource.CONFIG_MAP)
    }


def said(cluster: SimulatedCluster) -> tuple[str, str]:
    found = cluster.status.find_condition(ConditionType.SUCCEEDED)
    assert found is not None
    return found.reason, found.message


def test_an_attempt_has_an_immutable_copy_of_the_files() -> None:
    copy = maps_of(begin({"configMap": "mystages"}, FILES))["corpus-1-code"]
    assert copy["data"] == FILES.texts
    assert copy["binaryData"] == FILES.binaries
    assert copy["immutable"] is True
    assert copy["metadata"]["ownerReferences"][0]["name"] == "corpus-1"


def test_head_and_workers_import_from_the_copy_and_fetch_nothing() -> None:
    pods = pods_of(begin({"configMap": "mystages"}, FILES))
    for pod in (pods["head"], pods["worker"]):
        (container,) = pod["containers"]
        assert variables_of(container)["PYTHONPATH"] == f"{FOLDER}/files"
        assert variables_of(container)["STRANDLINE_CODE"] == FOLDER
        assert {"name": "code-files", "configMap": {"name": "corpus-1-code"}} in pod["volumes"]
        mount = {"name": "code-files", "mountPath": f"{FOLDER}/files", "readOnly": True}
        assert mount in container["volumeMounts"]
        assert "initContainers" not in pod
    assert "code" not in json.dumps(pods["submitter"])


def test_the_next_attempt_copies_the_current_files() -> None:
    cluster = begin({"configMap": "mystages"}, FILES)
    cluster.start_rayjob()
    cluster.code = CodeFiles({"mystages.py": "MIN = 8\n"}, {})
    cluster.settle()
    assert maps_of(cluster)["corpus-1-code"]["data"] == FILES.texts
    cluster.fail_attempt()
    cluster.run_next()
    assert maps_of(cluster)["corpus-2-code"]["data"] == {"mystages.py": "MIN = 8\n"}
    assert maps_of(cluster)["corpus-1-code"]["data"] == FILES.texts


def test_the_fetch_container_has_the_settings_of_rays_container() -> None:
    template = {
        "spec": {
            "initContainers": [{"name": "login", "image": "login:1"}],
            "containers": [
                {
                    "name": "ray-worker",
                    "image": "mine:1",
                    "env": [{"name": "PIP_INDEX_URL", "value": "https://example.com/simple"}],
                    "volumeMounts": [{"name": "wheels", "mountPath": "/mnt/wheels"}],
                }
            ],
            "volumes": [{"name": "wheels", "emptyDir": {}}],
        }
    }
    group = {"name": "gpu", "resources": {"gpu": 1, "memory": "8Gi"}, "podTemplate": template}
    code = {"archive": ARCHIVE, "packages": ["a==1"], "wheels": "/mnt/wheels"}
    pod = pods_of(begin(code, ray={"workerGroups": [group]}))["worker"]
    login, fetch = pod["initContainers"]
    assert (login["name"], fetch["name"], fetch["image"]) == ("login", "strandline-code", "mine:1")
    command, name, wanted, into, place = fetch["command"]
    assert (command, name, into) == ("strandline", "fetch-code", "--into")
    assert place == f"{FOLDER}/fetched"
    assert json.loads(wanted) == code
    assert variables_of(fetch)["PIP_INDEX_URL"] == "https://example.com/simple"
    assert "PYTHONPATH" not in variables_of(fetch)
    mounts = {mount["mountPath"]: mount.get("readOnly", False) for mount in fetch["volumeMounts"]}
    assert {"/mnt/wheels": False, "/tmp": False, place: False}.items() <= mounts.items()  # noqa: S108
    (ray,) = pod["containers"]
    assert fetch["securityContext"] == ray["securityContext"]
    assert {"name": "code-fetched", "mountPath": place, "readOnly": True} in ray["volumeMounts"]
    # The fetch container may use as much as Ray's container, except the GPU, which is requested
    # once.
    assert fetch["resources"]["limits"] == {"cpu": "2", "memory": str(8 << 30)}
    assert ray["resources"]["limits"]["nvidia.com/gpu"] == "1"


def test_the_python_path_is_files_archive_packages_and_the_users_path() -> None:
    code = {"configMap": "mystages", "archive": ARCHIVE, "packages": ["a==1"]}
    brought = f"{FOLDER}/files:{FOLDER}/fetched/archive/code-1/src:{FOLDER}/fetched/packages"

    def find_path(env: list[Json]) -> tuple[Any, Any]:
        container = {"name": "ray-head", "env": env}
        ray = {
            "head": {"podTemplate": {"spec": {"containers": [container]}}},
            "workerGroups": [{"name": "cpu"}],
        }
        found = variables_of(pods_of(begin(code, FILES, ray=ray))["head"]["containers"][0])
        return found["PYTHONPATH"], found.get("STRANDLINE_OWN_PYTHONPATH")

    assert find_path([{"name": "OTHER", "value": "1"}]) == (brought, None)
    mine = [{"name": "PYTHONPATH", "value": "/mine"}]
    assert find_path(mine) == (f"{brought}:/mine", None)
    secret = {"secretKeyRef": {"name": "a", "key": "b"}}
    from_elsewhere = [{"name": "PYTHONPATH", "valueFrom": secret}]
    assert find_path(from_elsewhere) == (f"{brought}:$(STRANDLINE_OWN_PYTHONPATH)", secret)


def test_kubernetes_expands_no_variable_in_fetch_arguments() -> None:
    archive = ARCHIVE | {"url": "s3://bucket/$(HOME)/code.zip"}
    (fetch,) = pods_of(begin({"archive": archive}))["head"]["initContainers"]
    assert "s3://bucket/$$(HOME)/code.zip" in fetch["command"][2]


def test_without_code_the_rayjob_is_unchanged() -> None:
    plain = SimulatedCluster()
    plain.settle()
    assert pods_of(begin({})) == pods_of(plain)
    assert list(maps_of(begin({}))) == ["corpus-1"]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (None, "ConfigMap mystages. Create it"),
        (CodeFiles({}, {}), "ConfigMap mystages has no key that ends in .py."),
        (CodeFiles({"README": ""}, {"x.so": ""}), "has no key that ends in .py"),
    ],
)
def test_missing_files_prevent_the_attempt(files: CodeFiles | None, words: str) -> None:
    cluster = begin({"configMap": "mystages"}, files)
    reason, message = said(cluster)
    assert (reason, cluster.attempts) == ("CodeMissing", {})
    assert words in message
    assert [event.reason for event in cluster.events] == ["RunStarted", "Blocked"]
    cluster.code = FILES
    cluster.settle()
    assert list(cluster.attempts) == ["corpus-1"]
    assert said(cluster)[0] != "CodeMissing"


def test_files_deleted_before_the_rayjob_is_made_delay_the_rayjob() -> None:
    cluster = SimulatedCluster(code=FILES)
    cluster.edit(code={"configMap": "mystages"})
    while not cluster.attempts:
        cluster.pass_once()
    cluster.code = None
    cluster.settle()
    assert cluster.list_of(Resource.RAYJOB) == []
    assert said(cluster)[0] == "CodeMissing"
    cluster.code = FILES
    cluster.settle()
    assert len(cluster.list_of(Resource.RAYJOB)) == 1


def test_a_finished_run_does_not_report_missing_files() -> None:
    cluster = begin({"configMap": "mystages"}, FILES)
    cluster.start_rayjob()
    cluster.settle()
    cluster.code = None
    cluster.settle()
    cluster.finish()
    assert said(cluster)[0] == "Completed"


@pytest.mark.parametrize("code", [1, 64, 75])
def test_the_end_of_an_attempt_does_not_report_missing_files(code: int) -> None:
    """No pass reads the files while the attempt has a copy, or when the attempt ends."""
    cluster = begin({"configMap": "mystages"}, FILES)
    cluster.start_rayjob()
    cluster.settle()
    cluster.finish(code)
    assert not [event for event in cluster.events if event.reason == "Blocked"]
    statuses = [plan.pipeline for plan in cluster.plans if plan.pipeline is not None]
    told = [status.find_condition(ConditionType.SUCCEEDED) for status in statuses]
    assert "CodeMissing" not in {condition.reason for condition in told if condition is not None}


def end_fetch(code: int, message: str = "", reason: str = "Error") -> Json:
    """Return the status of a pod whose code could not be fetched."""
    end = {"exitCode": code, "message": message, "reason": reason}
    status = {"name": "strandline-code", "state": {"terminated": end}}
    return {"phase": "Failed", "initContainerStatuses": [status]}


def say(code: int, sentence: str) -> str:
    return format_outcome_line(DriverOutcome(exit_code=code, message=sentence))


WRONG = "spec.code.archive.sha256: the archive has another digest"


@pytest.mark.parametrize("pod", ["head", "cpu"])
def test_a_wrong_digest_ends_the_run_without_retry(pod: str) -> None:
    cluster = begin({"archive": ARCHIVE})
    cluster.start_rayjob()
    cluster.set_pod(f"-{pod}", **end_fetch(64, say(64, WRONG)))
    cluster.settle()
    cluster.finish_teardown()
    status = cluster.attempts["corpus-1"][1]
    assert (status.cause, status.message) == ("InvalidSpec", WRONG)
    cluster.advance(10_000)
    assert list(cluster.attempts) == ["corpus-1"]


def test_a_head_that_can_not_reach_the_archive_is_retried() -> None:
    cluster = begin({"archive": ARCHIVE})
    cluster.start_rayjob()
    cluster.set_pod("-head", **end_fetch(1, say(1, "https://example.com/code.zip: timed out")))
    cluster.settle()
    cluster.finish_teardown()
    status = cluster.attempts["corpus-1"][1]
    assert status.cause == "ApplicationError"
    assert status.message == "https://example.com/code.zip: timed out"
    cluster.run_next()
    assert list(cluster.attempts) == ["corpus-1", "corpus-2"]


@pytest.mark.parametrize(
    "status",
    [
        end_fetch(1, say(1, "timed out")),
        end_fetch(137, reason="OOMKilled"),
        end_fetch(143),
        end_fetch(0, reason="Completed"),
    ],
)
def test_a_worker_with_a_retryable_fetch_error_does_not_end_the_attempt(status: Json) -> None:
    cluster = begin({"archive": ARCHIVE}, onWorkerLoss={"oom": "Absorb"})
    cluster.start_rayjob()
    cluster.set_pod("-cpu", **status)
    cluster.settle()
    assert cluster.attempts["corpus-1"][1].end_time is None


def test_an_image_that_can_not_fetch_reports_this_itself() -> None:
    cluster = begin({"archive": ARCHIVE})
    cluster.start_rayjob()
    said_by_it = "Usage: strandline\nstrandline: error: No such command 'fetch-code'\n"
    cluster.set_pod("-head", **end_fetch(64, said_by_it))
    cluster.settle()
    status = cluster.attempts["corpus-1"][1]
    assert status.cause == "InvalidSpec"
    assert status.message.endswith("its code: strandline: error: No such command 'fetch-code'")
