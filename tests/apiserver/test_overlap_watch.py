"""The watch reports every overlap in which two attempts or two RayJobs of a pipeline have pods."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from api_server import ApiServer
from kube_client import KubeClient
from overlap_watch import OverlapWatch
from recordings import Json
from strandline_api.names import ATTEMPT_LABEL, PIPELINE_UID_LABEL


@pytest.fixture
def watch(api_server: ApiServer) -> Iterator[OverlapWatch]:
    """Return a watch of this test, because overlaps in the shared watch fail other tests."""
    with OverlapWatch(api_server.kubeconfig) as one:
        yield one


def make_owner(client: KubeClient, namespace: str, name: str) -> Json:
    """Create a RayJob with its RayCluster, and return a reference to the RayCluster."""
    template = {"spec": {"containers": [{"name": "ray", "image": "ray.invalid/ray"}]}}
    spec = {"headGroupSpec": {"rayStartParams": {}, "template": template}}
    version = "ray.io/v1"
    job = {"apiVersion": version, "kind": "RayJob", "metadata": {"name": name}}
    made = client.create({**job, "spec": {"entrypoint": "true", "rayClusterSpec": spec}}, namespace)
    cluster = {"apiVersion": version, "kind": "RayCluster", "spec": spec}
    metadata: Json = {"name": name, "ownerReferences": [refer_to(made)]}
    return refer_to(client.create({**cluster, "metadata": metadata}, namespace))


def refer_to(body: Json) -> Json:
    names = {key: body[key] for key in ("apiVersion", "kind")}
    return {**names, "name": body["metadata"]["name"], "uid": body["metadata"]["uid"]}


def make_pod(
    client: KubeClient, namespace: str, name: str, pipeline: str, attempt: str, *owners: Json
) -> None:
    labels = {PIPELINE_UID_LABEL: f"{namespace}-{pipeline}", ATTEMPT_LABEL: attempt}
    metadata = {"name": name, "labels": labels, "ownerReferences": list(owners)}
    spec = {"containers": [{"name": "none", "image": "none.invalid/none"}]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    client.create(body, namespace)


def test_two_concurrent_attempts_are_reported_with_names_and_times(
    watch: OverlapWatch, client: KubeClient, namespace: str
) -> None:
    make_pod(client, namespace, "first", "corpus", "1")
    make_pod(client, namespace, "second", "corpus", "2")
    client.delete("Pod", "first", namespace, grace=0)
    watch.catch_up()
    (told,) = watch.list_overlaps(namespace)
    assert f"Pod {namespace}/first of attempt 1 (" in told
    assert f"and Pod {namespace}/second of attempt 2 (" in told
    assert told.count(":") >= 2 * 3
    assert " to now)" in told


def test_two_concurrent_rayjobs_of_an_attempt_are_reported(
    watch: OverlapWatch, client: KubeClient, namespace: str
) -> None:
    for name in ("corpus-1", "corpus-1-again"):
        make_pod(client, namespace, name, "corpus", "1", make_owner(client, namespace, name))
    watch.catch_up()
    (told,) = watch.list_overlaps(namespace)
    assert "of RayJobs ['" in told


def test_sequential_attempts_and_attempts_of_other_pipelines_are_allowed(
    watch: OverlapWatch, client: KubeClient, namespace: str
) -> None:
    one = make_owner(client, namespace, "corpus-1")
    make_pod(client, namespace, "head", "corpus", "1", one)
    make_pod(client, namespace, "worker", "corpus", "1", one)
    make_pod(client, namespace, "other", "another", "2")
    for name in ("head", "worker"):
        client.delete("Pod", name, namespace, grace=0)
    make_pod(client, namespace, "head", "corpus", "2", make_owner(client, namespace, "corpus-2"))
    watch.catch_up()
    assert watch.list_overlaps(namespace) == []
    assert watch.list_names("Pod", namespace) == {"head": 2, "worker": 1, "other": 1}


def test_a_watch_reports_a_lost_stream(watch: OverlapWatch) -> None:
    watch.errors.append("the stream of Pod was lost")
    with pytest.raises(AssertionError, match="the stream of Pod was lost"):
        watch.catch_up()
