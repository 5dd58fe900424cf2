"""Alerts and the dashboard ask for numbers that the operator has, with labels that these have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from prometheus_client import Histogram
from prometheus_client.metrics import MetricWrapperBase

from helm_program import CHART, ROOT, Helm
from manifests import of_kind
from strandline_api.causes import Cause
from strandline_operator.metrics.numbers import COMPLETED, Numbers

Json = dict[str, Any]
ALERTS: Json = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text(encoding="utf-8"))
RULES: list[Json] = [rule for group in ALERTS["groups"] for rule in group["rules"]]
DASHBOARD: Json = json.loads((CHART / "files" / "dashboard.json").read_text(encoding="utf-8"))
PANELS: list[Json] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
# Labels that Prometheus puts on whatever it scrapes.
SCRAPED = {"namespace", "job"}
SERIES = re.compile(r"\b(strandline_\w+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"((?:[^"\\]|\\.)*)"')
BY = re.compile(r"\b(?:by|on) \(([^)]*)\)")
SHOWN = re.compile(r"\{\{ ?\$labels\.(\w+) ?\}\}|\{\{(\w+)\}\}")
OURS = 'namespace="a",job="b"'


def list_series() -> dict[str, set[str]]:
    """Names of all series that the operator can serve, each with its labels."""
    found: dict[str, set[str]] = {}
    for metric in set(Numbers().registry._collector_to_names):
        assert isinstance(metric, MetricWrapperBase)
        name, labels = metric._name, set(metric._labelnames)
        if isinstance(metric, Histogram):
            found |= {f"{name}_{part}": labels for part in ("count", "sum")}
            found[f"{name}_bucket"] = labels | {"le"}
        else:
            found[name if metric._type == "gauge" else f"{name}_total"] = labels
    return found


SERVED = list_series()


def list_buckets(name: str) -> set[str]:
    """Upper bounds of a histogram, as they are spelled on the page."""
    for metric in Numbers().registry._collector_to_names:
        if isinstance(metric, Histogram) and f"{metric._name}_bucket" == name:
            return {str(float(bound)) for bound in metric._upper_bounds}
    raise LookupError(name)


def list_queries() -> Iterator[tuple[str, str]]:
    for rule in RULES:
        yield rule["alert"], rule["expr"].replace("OURS", OURS)
    for panel in PANELS:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


QUERIES = list(list_queries())
queries = pytest.mark.parametrize(("title", "query"), QUERIES, ids=[one[0] for one in QUERIES])


@queries
def test_a_query_asks_for_series_that_there_are(title: str, query: str) -> None:
    asked = SERIES.findall(query)
    assert asked
    for name, matchers in asked:
        assert name in SERVED
        labels = {label for label, _, _ in MATCHER.findall(matchers)}
        assert "namespace" in labels, "two installations would be mixed"
        assert labels <= SERVED[name] | SCRAPED
        assert MATCHER.sub("", matchers).strip(" ,") == ""


@queries
def test_a_query_groups_by_labels_that_are_left(title: str, query: str) -> None:
    labels = set.union(*(SERVED[name] for name, _ in SERIES.findall(query)))
    for group in BY.findall(query):
        assert {label.strip() for label in group.split(",")} <= labels


@queries
def test_a_query_names_causes_and_bounds_that_occur(title: str, query: str) -> None:
    causes = {COMPLETED, *(cause.value for cause in Cause)}
    for name, matchers in SERIES.findall(query):
        for label, _, value in MATCHER.findall(matchers):
            if label == "cause":
                assert set(value.split("|")) <= causes
            if label == "le":
                pattern = re.compile(value.replace("\\\\", "\\"))
                assert any(pattern.fullmatch(bound) for bound in list_buckets(name))


@queries
def test_a_query_has_a_partner_for_every_bracket(title: str, query: str) -> None:
    for pair in ("()", "[]", "{}"):
        assert query.count(pair[0]) == query.count(pair[1])
    assert "OURS" not in query


def test_every_series_is_shown_or_watched() -> None:
    asked = {name for _, query in QUERIES for name, _ in SERIES.findall(query)}
    families = {re.sub(r"_(total|bucket|count|sum)$", "", name) for name in asked}
    for name in SERVED:
        assert re.sub(r"_(total|bucket|count|sum)$", "", name) in families, name


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_says_what_is_wrong_and_where_to_read_on(rule: Json) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning"}
    told = rule["annotations"]
    assert set(told) == {"summary", "description", "runbook"}
    assert all(told[part].endswith(".") for part in ("summary", "description"))
    page, _, anchor = told["runbook"].partition("#")
    text = (ROOT / page).read_text(encoding="utf-8")
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    assert anchor in {title.lower().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_tells_only_labels_that_its_query_leaves(rule: Json) -> None:
    left = {label.strip() for group in BY.findall(rule["expr"]) for label in group.split(",")}
    shown = {one[0] for text in rule["annotations"].values() for one in SHOWN.findall(text)}
    assert shown <= left


def test_alerts_have_names_of_their_own() -> None:
    names = [rule["alert"] for rule in RULES]
    assert len(set(names)) == len(names)


def test_panels_lie_beside_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_panels_have_numbers_of_their_own_and_legends_of_their_labels() -> None:
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(numbers)) == len(numbers)
    for panel in PANELS:
        for target in panel["targets"]:
            left = {one for group in BY.findall(target["expr"]) for one in group.split(", ")}
            assert {one[1] for one in SHOWN.findall(target["legendFormat"])} <= left


def test_the_chart_puts_its_own_labels_into_the_alerts(helm: Helm) -> None:
    manifests = helm.render("--set", "metrics.rules.enabled=true")
    (rules,) = of_kind(manifests, "PrometheusRule")
    (service,) = of_kind(manifests, "Service")
    metadata = service["metadata"]
    ours = f'namespace="{metadata["namespace"]}",job="{metadata["name"]}"'
    found = [rule for group in rules["spec"]["groups"] for rule in group["rules"]]
    assert [one["alert"] for one in found] == [one["alert"] for one in RULES]
    assert all(ours in rule["expr"] and "OURS" not in rule["expr"] for rule in found)
    assert "{{ $labels.cause }}" in str(found)


def test_the_chart_carries_the_dashboard_as_it_is(helm: Helm) -> None:
    manifests = helm.render("--set", "metrics.dashboard.enabled=true")
    (config,) = of_kind(manifests, "ConfigMap")
    assert config["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(config["data"]["strandline.json"]) == DASHBOARD
