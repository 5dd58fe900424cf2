"""A real API server accepts the preflight Job, and the Job's result ends or starts the run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from api_server import ApiServer
from kube_client import KubeClient
from kuberay_standin.kubelet import render_end
from operator_process import QUICK, OperatorProcess, run_operator
from operator_stories import NAME, spell_pipeline
from recordings import Json
from strandline_api.names import PREFLIGHT_LABEL
from strandline_api.outcome.driver_outcome import DriverOutcome, format_outcome_line

JOB = f"{NAME}-preflight"
SENTENCE = "spec.sink.with.folder: unknown parameter; did you mean 'path'?"
LIMITS = {**QUICK, "STRANDLINE_PREFLIGHT": "true"}


class Stage:
    """A namespace with a pipeline, and an operator that checks pipelines."""

    def __init__(self, client: KubeClient, namespace: str, operator: OperatorProcess) -> None:
        self.client = client
        self.namespace = namespace
        self.operator = operator

    def read_status(self) -> Json:
        body = self.client.get("CurationPipeline", NAME, self.namespace) or {}
        status: Json = body.get("status", {})
        return status

    def find_condition(self, type_: str) -> tuple[str, str]:
        found = {each["type"]: each for each in self.read_status().get("conditions", [])}
        condition = found.get(type_, {})
        return condition.get("status", ""), condition.get("reason", "")

    def find_job(self) -> Json | None:
        return self.client.get("Job", JOB, self.namespace)

    def list_attempts(self) -> list[str]:
        attempts = self.client.list("CurationAttempt", self.namespace)
        return [attempt["metadata"]["name"] for attempt in attempts]

    def end_job(self, code: int, message: str) -> None:
        """Make the Job's pod as its controller would, and end the pod as a kubelet would."""
        job = self.find_job()
        assert job is not None
        template = job["spec"]["template"]
        labels = {PREFLIGHT_LABEL: template["metadata"]["labels"][PREFLIGHT_LABEL]}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{JOB}-x7k2p", "labels": labels},
            "spec": template["spec"],
        }
        self.client.create(pod, self.namespace)
        status = render_end(pod, "2026-11-25T07:00:03Z", code)
        (container,) = status["containerStatuses"]
        container["imageID"] = "registry/runtime@sha256:1"
        container["state"]["terminated"]["message"] = message
        self.client.patch("Pod", f"{JOB}-x7k2p", {"status": status}, self.namespace, sub="status")


@pytest.fixture
def stage(api_server: ApiServer, tmp_path: Path) -> Iterator[Stage]:
    """Start a pipeline's check in a namespace that admits only restricted pods."""
    with closing(KubeClient(api_server.kubeconfig)) as client:
        namespace = api_server.make_namespace("preflight", client)
        enforced = {"pod-security.kubernetes.io/enforce": "restricted"}
        client.patch("Namespace", namespace, {"metadata": {"labels": enforced}})
        words = ("--namespaces", namespace)
        with run_operator(api_server.kubeconfig, tmp_path, *words, **LIMITS) as operator:
            stage = Stage(client, namespace, operator)
            client.create(spell_pipeline(), namespace)
            operator.wait_for(stage.find_job)
            yield stage
            assert operator.faults == []


def test_a_misspelt_parameter_ends_the_run_before_there_is_an_attempt(stage: Stage) -> None:
    stage.operator.wait_for(lambda: stage.find_condition("SpecApplied") == ("Unknown", "Preflight"))
    assert stage.list_attempts() == []
    outcome = DriverOutcome(exit_code=64, message=SENTENCE)
    stage.end_job(64, format_outcome_line(outcome))
    stage.operator.wait_for(lambda: stage.read_status().get("phase") == "Failed")
    assert stage.find_condition("Succeeded") == ("False", "InvalidSpec")
    assert stage.find_condition("SpecApplied") == ("False", "PreflightFailed")
    assert stage.read_status()["state"] == SENTENCE
    stage.operator.wait_for(lambda: stage.find_job() is None)
    time.sleep(3)
    assert (stage.list_attempts(), stage.find_job()) == ([], None)


def test_a_restarted_operator_reads_the_same_result(stage: Stage) -> None:
    stage.operator.kill()
    job = stage.find_job()
    stage.end_job(0, "")
    stage.operator.start()
    stage.operator.wait_for(stage.list_attempts)
    assert stage.list_attempts() == [f"{NAME}-1"]
    assert job is not None
    known = stage.read_status()["preflight"]
    token = job["metadata"]["labels"][PREFLIGHT_LABEL]
    assert (known["verdict"], known["image"]) == ("Passed", "registry/runtime@sha256:1")
    assert token.startswith(known["key"])
    stage.operator.wait_for(lambda: stage.find_job() is None)
    assert stage.find_condition("SpecApplied") == ("True", "Applied")
