"""A real API server accepts all objects of an attempt, for each preset of spot nodes."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from api_server import ROOT
from kube_client import KubeClient, Refusal
from recordings import Json
from strandline_operator.commands.manifests import render_attempt
from strandline_operator.model.limits import Limits
from strandline_operator.render.pods.spot import PRESETS

EXAMPLE = ROOT / "pipelines" / "examples" / "spot.yaml"
STRICT = {"dryRun": "All", "fieldValidation": "Strict"}
# References to objects that a server without nodes lacks.
OWN = {
    "voluntaryDisruptions": {"workers": "Wait", "podDisruptionBudget": True},
    "serviceAccountName": "default",
}


def make_pipeline(namespace: str, **spot: Any) -> Json:
    document: Json = yaml.safe_load(EXAMPLE.read_text("utf-8"))
    document["metadata"]["namespace"] = namespace
    document["spec"]["ray"] |= OWN
    (group,) = document["spec"]["ray"]["workerGroups"]
    group["spot"] |= spot
    return document


def list_pods(rayjob: Json) -> dict[str, Json]:
    """Return the pods that KubeRay makes for a RayJob."""
    cluster = rayjob["spec"]["rayClusterSpec"]
    (group,) = cluster["workerGroupSpecs"]
    templates = {
        "head": cluster["headGroupSpec"]["template"],
        "worker": group["template"],
        "submitter": rayjob["spec"]["submitterPodTemplate"],
    }
    return {
        name: {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": template["metadata"] | {"name": name},
            "spec": template["spec"],
        }
        for name, template in templates.items()
    }


@pytest.mark.parametrize("on_demand", [(), ("head", "cpu")], ids=["spot", "on-demand"])
@pytest.mark.parametrize("preset", PRESETS)
def test_all_objects_of_an_attempt_are_accepted(
    preset: str, on_demand: tuple[str, ...], client: KubeClient, namespace: str
) -> None:
    document = make_pipeline(namespace, preset=preset)
    document["spec"]["ray"]["head"] = {"spot": {"preset": preset}} if on_demand else {}
    client.create(document, namespace, **STRICT)
    config, budget, rayjob = render_attempt(document, on_demand, Limits())
    assert [body["kind"] for body in (config, budget, rayjob)] == [
        "ConfigMap",
        "PodDisruptionBudget",
        "RayJob",
    ]
    for body in (config, budget, rayjob, *list_pods(rayjob).values()):
        body["metadata"].pop("ownerReferences", None)
        made = client.create(body, namespace, **STRICT)
        assert made["metadata"]["uid"]


def test_an_unknown_preset_is_rejected(client: KubeClient, namespace: str) -> None:
    with pytest.raises(Refusal) as caught:
        client.create(make_pipeline(namespace, preset="gcp"), namespace, **STRICT)
    assert caught.value.status == 422
    assert 'supported values: "gke", "eks", "karpenter", "aks"' in caught.value.message


def test_a_pipeline_without_spot_settings_is_stored_without_them(
    client: KubeClient, namespace: str
) -> None:
    document = make_pipeline(namespace)
    document["spec"]["ray"] = {"workerGroups": [{"name": "cpu"}]}
    made = client.create(document, namespace)
    assert "voluntaryDisruptions" not in made["spec"]["ray"]
    assert "spot" not in made["spec"]["ray"]["head"]
    assert "spot" not in made["spec"]["ray"]["workerGroups"][0]
