"""The chart's values have the documented effects and defaults, and generated files are current."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from helm_program import CASES, CHART
from strandline_api.law.retry import merge_policies
from strandline_api.spec.namespace_defaults import SpecDefaults
from strandline_api.spec.policy import RetryPolicy
from strandline_operator.settings import Settings, format_flag, read_settings

Json = dict[str, Any]
SCHEMA: Json = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
VALUES: Json = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
SETTINGS: Json = SCHEMA["properties"]["settings"]["properties"]
FLAGS = (CHART / "templates" / "_settings.tpl").read_text(encoding="utf-8")
# Settings that the chart derives from more general values.
DERIVED = {
    "namespaces": "watchNamespaces",
    "metrics_port": "metrics",
    "liveness_port": "livenessPort",
    "shutdown_grace": "shutdownGraceSeconds",
    "runtime_image": "runtimeImage",
    "retry_defaults": "retryDefaults",
    "pod_security": "podSecurity",
    "attempt_network": "attemptNetworkPolicy",
    "read_nodes": "rbac",
    "account": "serviceAccount",
    "preflight": "preflight",
    "preflight_longest": "preflight",
}
FREE = {"resources", "affinity", "global"}  # free-form values


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def leaves(node: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    for name, child in node["properties"].items():
        if "properties" in child:
            yield from leaves(child, f"{path}{name}.")
        else:
            yield f"{path}{name}", child


def find(values: Json, path: str) -> Any:
    found: Any = values
    for name in path.split("."):
        found = found[name] if isinstance(found, dict) and name in found else None
    return found


def test_every_setting_has_a_value_or_derives_from_one() -> None:
    named = {camel(name) for name in Settings.model_fields if name not in DERIVED}
    assert set(SETTINGS) == named
    for name, value in DERIVED.items():
        assert value in SCHEMA["properties"]
        assert f"{format_flag(name)}=" in FLAGS


@pytest.mark.parametrize("name", sorted(set(Settings.model_fields) - set(DERIVED)))
def test_a_default_equals_the_operators_default(name: str) -> None:
    given = {name: str(SETTINGS[camel(name)]["default"])}
    assert getattr(read_settings(given, {}), name) == Settings.model_fields[name].default


def test_the_derived_defaults_equal_the_operators_defaults() -> None:
    own = Settings()
    assert VALUES["metrics"]["port"] == own.metrics_port
    assert VALUES["livenessPort"] == own.liveness_port
    assert VALUES["shutdownGraceSeconds"] == own.shutdown_grace
    assert VALUES["rbac"]["readNodes"] == own.read_nodes
    assert VALUES["preflight"]["enabled"] == own.preflight
    longest = read_settings({"preflight_longest": VALUES["preflight"]["longest"]}, {})
    assert longest.preflight_longest == own.preflight_longest
    assert VALUES["runtimeImage"]["repository"] == own.runtime_image.partition(":")[0]
    assert (VALUES["watchNamespaces"], VALUES["retryDefaults"]) == ([], {})
    given = {"pod_security": json.dumps(VALUES["podSecurity"])}
    assert read_settings(given, {}).pod_security == own.pod_security


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_a_settings_description_equals_the_operators(name: str) -> None:
    told = {camel(field): one.description for field, one in Settings.model_fields.items()}
    assert SETTINGS[name]["description"] == told[name]


def test_every_value_has_its_default_in_the_values_file() -> None:
    for path, node in leaves(SCHEMA):
        assert find(VALUES, path) == node["default"], path


def test_objects_of_the_schema_reject_unknown_names() -> None:
    def check(node: Json, path: str) -> None:
        if "properties" in node:
            assert node["additionalProperties"] is False, path
        elif node.get("type") == "object" and path not in FREE:
            assert "additionalProperties" in node, path
        for name, child in node.get("properties", {}).items():
            check(child, f"{path}.{name}" if path else name)

    check(SCHEMA, "")
    check(SCHEMA["definitions"]["retryPolicy"], "retryPolicy")


def test_the_schema_of_a_retry_policy_has_all_its_fields() -> None:
    fields = {field.alias for field in RetryPolicy.model_fields.values()}
    assert set(SCHEMA["definitions"]["retryPolicy"]["properties"]) == fields


@pytest.mark.parametrize("part", ["ray", "output"])
def test_a_namespace_can_set_all_defaults_that_the_operator_reads(part: str) -> None:
    given = SCHEMA["properties"]["namespaceSpecDefaults"]["additionalProperties"]["properties"]
    model = SpecDefaults.model_fields[part].annotation
    assert model is not None
    assert set(given[part]["properties"]) == {field.alias for field in model.model_fields.values()}


def test_the_everything_case_changes_every_value() -> None:
    case = yaml.safe_load((CHART / "ci" / "everything-on-values.yaml").read_text(encoding="utf-8"))
    other = {
        "image.tag": "the digest wins",
        "runtimeImage.digest": "the tag is tried",
        "watchNamespaces": "all of them are tried",
        "global": "nothing reads it",
    }
    for path, node in leaves(SCHEMA):
        if path not in other and node.get("type") != "boolean":
            assert find(case, path) not in (None, node["default"]), path


def test_the_everything_cases_policy_is_valid() -> None:
    case = yaml.safe_load((CHART / "ci" / "everything-on-values.yaml").read_text(encoding="utf-8"))
    policy = read_settings({"retry_defaults": json.dumps(case["retryDefaults"])}, {}).retry_defaults
    assert merge_policies(policy).max_retries == 6


def test_each_case_describes_its_purpose() -> None:
    assert len(CASES) >= 5
    for path in CASES:
        assert path.read_text(encoding="utf-8").startswith("# "), path.name
