"""The metrics page lists exactly the served metrics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from strandline_api.schema.crd import attempt_definition, pipeline_definition
from strandline_api.status.enums import PipelinePhase
from strandline_operator.metrics.numbers import Numbers

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
TABLE = re.compile(r"<!-- table: metrics -->\n(.*?)<!-- end -->", re.DOTALL)
DRIVERS = "## Of a driver"  # tests of the driver's server cover the rest of the page


def render_table() -> str:
    registry = Numbers().registry
    rows = ["| metric | type | labels | meaning |", "| --- | --- | --- | --- |"]
    for metric in sorted(registry.collect(), key=lambda one: one.name):
        collector: Any = registry._names_to_collectors[metric.name]
        labels = ", ".join(f"`{name}`" for name in collector._labelnames)
        rows.append(f"| `{metric.name}` | {metric.type} | {labels} | {metric.documentation} |")
    return "\n".join([*rows, ""])


def test_the_page_lists_the_served_metrics() -> None:
    found = TABLE.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    assert found[1] == render_table(), f"the table of {PAGE.name} should be:\n{render_table()}"


def test_metrics_recommended_by_the_page_are_served() -> None:
    text = PAGE.read_text(encoding="utf-8").partition(DRIVERS)[0]
    advised = set(re.findall(r"strandline_[a-z_]+", text.partition("<!-- end -->")[2]))
    served = {
        metric.name + suffix
        for metric in Numbers().registry.collect()
        for suffix in ("", "_total", "_bucket")
    }
    assert len(advised) > 4
    assert advised <= served


def list_paths(node: Any, base: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield every object path in a configuration of kube-state-metrics."""
    if isinstance(node, dict):
        path = tuple(node.get("path", ()))
        yield from [base + path] * bool(path)
        for name, value in node.items():
            if name == "labelsFromPath":
                yield from (base + path + tuple(each) for each in value.values())
            elif name != "path":
                yield from list_paths(value, base + path)
    elif isinstance(node, list):
        for each in node:
            yield from list_paths(each, base)


def is_known(schema: dict[str, Any], path: tuple[str, ...]) -> bool:
    for name in path:
        if name not in schema.get("properties", {}):
            return False
        schema = schema["properties"][name]
    return True


def test_kube_state_metrics_reads_existing_fields() -> None:
    text = PAGE.read_text(encoding="utf-8").partition("# kube-state-metrics.yaml\n")[2]
    document = yaml.safe_load(text.partition("```")[0])
    definitions = {
        each["spec"]["names"]["kind"]: each["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for each in (pipeline_definition(), attempt_definition())
    }
    resources = document["spec"]["resources"]
    assert {each["groupVersionKind"]["kind"] for each in resources} == definitions.keys()
    for resource in resources:
        schema = definitions[resource["groupVersionKind"]["kind"]]
        paths = [path for path in list_paths(resource) if path[0] != "metadata"]
        assert len(paths) >= 3
        for path in paths:
            assert is_known(schema, path), path
    (states,) = [
        metric["each"]["stateSet"]["list"]
        for metric in resources[0]["metrics"]
        if "stateSet" in metric["each"]
    ]
    assert states == [phase.value for phase in PipelinePhase]
