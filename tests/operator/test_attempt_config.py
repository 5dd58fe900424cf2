"""The ConfigMap of an attempt, which its driver and commands with a copy of its pod read."""

from __future__ import annotations

from simulated_cluster import SimulatedCluster
from strandline_api.spec.pod_paths import digest_config
from strandline_operator.model.plan import Resource
from strandline_operator.model.view import Refusal


def test_after_an_edit_the_driver_reads_the_current_spec() -> None:
    """A ConfigMap is immutable, so after a rejected RayJob and an edit a new ConfigMap is made."""
    cluster = SimulatedCluster()
    words = "spec.rayClusterSpec: Invalid value"
    cluster.refused[Resource.RAYJOB] = Refusal(Resource.RAYJOB, "corpus-1", 422, words)
    cluster.settle()
    cluster.refused.clear()
    cluster.edit(sink={"use": "csv"})
    cluster.settle()
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    head = rayjob["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    (name,) = {each["configMap"]["name"] for each in head["volumes"] if "configMap" in each}
    made = {body["metadata"]["name"]: body["data"] for body in cluster.list_of(Resource.CONFIG_MAP)}
    assert name != "corpus-1"
    assert '"use": "csv"' in made[name]["pipeline.yaml"]
    ((_, status),) = cluster.attempts.values()
    assert status.config is not None
    assert (status.config.name, status.config.digest) == (name, digest_config(made[name]))


def test_the_attempt_names_its_config_map() -> None:
    cluster = SimulatedCluster()
    cluster.settle()
    ((_, status),) = cluster.attempts.values()
    (config,) = cluster.list_of(Resource.CONFIG_MAP)
    assert status.config is not None
    assert (status.config.name, status.config.digest) == ("corpus-1", digest_config(config["data"]))
