"""With any pod template, a pass completes and reports the template's defects."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from simulated_cluster import SimulatedCluster
from strandline_api.status.reasons import ConditionType
from strandline_operator.model.plan import Resource

NAMES = (
    "name", "containers", "initContainers", "env", "envFrom", "volumes", "volumeMounts", "ports",
    "mountPath", "resources", "limits", "tolerations", "affinity", "nodeSelector", "lifecycle",
    "securityContext", "labels", "annotations", "value", "valueFrom", "image", "serviceAccountName",
)  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "ray-head"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
    ),
    max_leaves=12,
)
CONTAINERS = st.fixed_dictionaries(
    {"name": st.sampled_from(["ray-head", "ray-worker", "mine"])},
    optional={name: VALUES for name in NAMES if name != "name"},
)
SPECS = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(NAMES, VALUES) | {"containers": st.lists(CONTAINERS, max_size=3)},
)


@settings(max_examples=200)
@given(metadata=VALUES, spec=SPECS | VALUES)
def test_law_a_pass_over_any_template_completes(metadata: Any, spec: Any) -> None:
    cluster = SimulatedCluster()
    template = {"metadata": metadata, "spec": spec}
    cluster.spec["ray"] = {**cluster.spec["ray"], "podTemplate": template}
    cluster.settle()
    condition = cluster.status.find_condition(ConditionType.SUCCEEDED)
    assert condition is not None
    if not cluster.list_of(Resource.RAYJOB):
        assert condition.reason in {"InvalidSpec", "ObjectRefused"}
        assert condition.message
