"""Alerts and the dashboard use only metrics and labels that the operator and drivers serve."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from prometheus_client import Histogram, generate_latest
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.parser import text_string_to_metric_families

from attempt_pods import list_pods, list_policies, render_attempt
from helm_program import CHART, ROOT, Helm
from manifests import of_kind
from network_rules import Endpoint, is_allowed
from promql import PromqlError, Reading
from renderings import flags_of, parse
from report_builders import live_of
from strandline.cli.views.running.snapshot import StageView
from strandline.cli.views.running.snapshot_json import render_snapshot
from strandline.data.statistics.request_figures import RequestFigures
from strandline.run.supervise.status_server import render_metrics
from strandline_api.outcome.causes import Cause
from strandline_api.status.pipeline_status import Progress
from strandline_api.status.reasons import Reason
from strandline_operator.metrics.numbers import COMPLETED, Numbers
from strandline_operator.model.plan import Resource

Json = dict[str, Any]
ALERTS: Json = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text(encoding="utf-8"))
RULES: list[Json] = [rule for group in ALERTS["groups"] for rule in group["rules"]]
DASHBOARD: Json = json.loads((CHART / "files" / "dashboard.json").read_text(encoding="utf-8"))
PANELS: list[Json] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
# Labels that Prometheus adds to the operator, which has a Service, and to the pods of drivers.
SCRAPED_SERVICE, SCRAPED_PODS = {"namespace", "job"}, {"namespace", "job", "pod"}
SHOWN = re.compile(r"\{\{ ?\$labels\.(\w+) ?\}\}|\{\{(\w+)\}\}")
VARIABLE = re.compile(r"label_values\((\w+), (\w+)\)")
OURS = 'namespace="a",job="b"'
DRIVER = "strandline_driver_"


def list_operators() -> dict[str, frozenset[str]]:
    """Return the operator's series by name, each with its labels."""
    found: dict[str, frozenset[str]] = {}
    for metric in set(Numbers().registry._collector_to_names):
        assert isinstance(metric, MetricWrapperBase)
        name, labels = metric._name, frozenset({*metric._labelnames, *SCRAPED_SERVICE})
        if isinstance(metric, Histogram):
            found |= {f"{name}_{part}": labels for part in ("count", "sum")}
            found[f"{name}_bucket"] = labels | {"le"}
        else:
            found[name if metric._type == "gauge" else f"{name}_total"] = labels
    return found


def list_samples() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the samples that a driver and an operator serve after some activity."""
    numbers = Numbers()
    numbers.watch_queue(lambda: 0, lambda: 0)
    numbers.note_progress("one", Progress())
    asked = RequestFigures(20, 3, 700, 50, 0.25, (0.5, 2.0, 5.0))
    live = live_of()
    live = live._replace(stages=(*live.stages, StageView("ask", 9, 9, 0, 0, requests=asked)))
    told = {**render_snapshot(live), "secondsSilent": 0.5}  # the driver's server adds this value
    for page in (render_metrics(told), generate_latest(numbers.registry)):
        for family in text_string_to_metric_families(page.decode()):
            for sample in family.samples:
                yield sample.name, dict(sample.labels)


SAMPLES = list(list_samples())
DRIVERS = {
    name: frozenset({*labels, *SCRAPED_PODS}) for name, labels in SAMPLES if name.startswith(DRIVER)
}
SERVED = {**list_operators(), **DRIVERS}


def list_buckets(name: str) -> set[str]:
    """Return the upper bounds of a histogram's buckets, as the metrics page spells them."""
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
queries = pytest.mark.parametrize(("title", "query"), QUERIES, ids=[query[0] for query in QUERIES])


def read(query: str) -> Reading:
    return Reading(query, SERVED)


@queries
def test_a_query_uses_existing_series_of_one_installation(title: str, query: str) -> None:
    reading = read(query)
    assert reading.selectors
    for name, matchers in reading.selectors:
        assert "namespace" in {matcher.label for matcher in matchers}, (
            "installations would be mixed"
        )
        assert OURS not in query or not name.startswith(DRIVER), "alerts are of the operator"
        variable = "$drivers" if name.startswith(DRIVER) else "$namespace"
        assert OURS in query or f'namespace=~"{variable}"' in query


@queries
def test_a_query_names_occurring_values(title: str, query: str) -> None:
    for name, matchers in read(query).selectors:
        for label, _, value in matchers:
            known = list_values(name, label)
            for each in split_pattern(value) if known else ():
                assert [one for one in known if re.fullmatch(each, one)], (label, each)


def list_values(name: str, label: str) -> set[str]:
    """Return the possible values of a label, or an empty set if the values are open-ended."""
    if label in {"cause", "result"}:
        return {COMPLETED, *(cause.value for cause in Cause)}
    if label == "le":
        return list_buckets(name)
    return {labels[label] for sample, labels in SAMPLES if sample == name and label in labels}


def split_pattern(value: str) -> list[str]:
    """Split a pattern into its alternatives. Ignore separators within brackets."""
    return re.split(r"\|(?![^(]*\))", value)


def test_every_series_is_shown_or_watched() -> None:
    asked = {name for _, query in QUERIES for name, _ in read(query).selectors}
    families = {re.sub(r"_(total|bucket|count|sum)$", "", name) for name in asked}
    for name in SERVED:
        assert re.sub(r"_(total|bucket|count|sum)$", "", name) in families, name


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_has_a_description_and_a_link(rule: Json) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning"}
    told = rule["annotations"]
    assert set(told) == {"summary", "description", "runbook_url"}
    assert all(told[part].endswith(".") for part in ("summary", "description"))
    page, _, anchor = told["runbook_url"].removeprefix("DOCS/").partition("/#")
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    assert anchor in {title.lower().replace(" ", "-") for title in titles}


def test_every_alert_has_a_page_and_its_installation(helm: Helm) -> None:
    values = ("metrics.rules.enabled=true", "metrics.rules.docs=https://example.com/strandline/")
    manifests = helm.render(*(word for value in values for word in ("--set", value)))
    (made,) = of_kind(manifests, "PrometheusRule")
    rules = [rule for group in made["spec"]["groups"] for rule in group["rules"]]
    assert len(rules) == len(RULES)
    for rule in rules:
        assert rule["labels"]["namespace"] == made["metadata"]["namespace"]
        url = rule["annotations"]["runbook_url"].removeprefix("https://example.com/strandline/")
        assert re.fullmatch(r"[a-z]+/#[a-z-]+", url)


def test_a_pod_monitor_finds_drivers_and_may_connect(helm: Helm) -> None:
    manifests = helm.render("--set", "metrics.podMonitor.enabled=true")
    (monitor,) = of_kind(manifests, "PodMonitor")
    cluster = render_attempt(parse(flags_of(manifests)).attempt_network)
    (rayjob,) = cluster.list_of(Resource.RAYJOB)
    head = rayjob["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]
    wanted = monitor["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= head["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    ports = {port["name"]: port["containerPort"] for port in head["spec"]["containers"][0]["ports"]}
    policies, pods = list_policies(cluster), list_pods(cluster)
    driver = ports[endpoint["port"]]
    assert is_allowed(policies, Endpoint("monitoring", {"app": "prometheus"}), pods["head"], driver)
    assert not is_allowed(policies, Endpoint("team", {"app": "web"}), pods["head"], driver)


def test_a_pod_monitor_covers_the_watched_namespaces(helm: Helm) -> None:
    words = ("--set", "metrics.podMonitor.enabled=true", "--set", "watchNamespaces={a,b}")
    (monitor,) = of_kind(helm.render(*words), "PodMonitor")
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": ["a", "b"]}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_shows_only_labels_of_its_query(rule: Json) -> None:
    left = read(rule["expr"].replace("OURS", OURS)).labels
    shown = {one[0] for text in rule["annotations"].values() for one in SHOWN.findall(text)}
    assert shown <= left


def test_alert_names_are_unique() -> None:
    names = [rule["alert"] for rule in RULES]
    assert len(set(names)) == len(names)


def test_panels_do_not_overlap() -> None:
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


def test_panel_ids_are_unique_and_legends_use_existing_labels() -> None:
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(numbers)) == len(numbers)
    for panel in PANELS:
        for target in panel["targets"]:
            shown = {one[1] for one in SHOWN.findall(target["legendFormat"])}
            assert shown <= read(target["expr"]).labels


def test_variables_use_existing_series_and_labels() -> None:
    asked = [one["query"]["query"] for one in DASHBOARD["templating"]["list"][1:]]
    assert len(asked) == 2
    for query in asked:
        found = VARIABLE.fullmatch(query)
        assert found is not None
        assert found[2] in SERVED[found[1]]


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ("sum(strandline_gone)", "no series strandline_gone"),
        ("sum(strandline_driver_bottlenecks)", "no series strandline_driver_bottlenecks"),
        ('strandline_sources{stage="x"}', "no label stage"),
        ("sum by (cause) (strandline_sources)", "no label cause"),
        ("sum without (cause) (strandline_sources)", "no label cause"),
        ("sum by (state) (sum by (namespace) (strandline_sources))", "no label state"),
        ("rate(strandline_sources[5m])", "no counter"),
        ("rate(strandline_attempts_total)", "without a range"),
        ("strandline_attempts_total[5m]", "with a range"),
        ("histogram_quantile(0.5, strandline_sources)", "no label le"),
        ("histogram_quantile(0.5, sum by (cause) (strandline_attempt_seconds_bucket))", "label le"),
        ("strandline_sources / strandline_attempts_total", "nothing joins"),
        ("strandline_sources / on (cause) strandline_attempts_total", "no label cause"),
        ("sum(strandline_sources", "it ends too early"),
        ("sum(strandline_sources))", "unread"),
        ("strandline_sources{state==1}", "state==1"),
        ("topk(3, strandline_sources)", "no series topk"),
        ("strandline_sources § 2", "can't read"),
    ],
)
def test_a_fault_in_a_query_is_detected(query: str, fault: str) -> None:
    with pytest.raises(PromqlError, match=re.escape(fault)):
        read(query)


@pytest.mark.parametrize(
    ("query", "labels"),
    [
        ("strandline_queue_depth", {"namespace", "job"}),
        ("sum by (state) (strandline_sources) > 0", {"state"}),
        ("sum(strandline_sources) by (state) / 2", {"state"}),
        ("sum without (job, namespace) (strandline_sources)", {"state"}),
        ("-max(strandline_sources offset 5m)", set()),
        (
            "strandline_sources / on (namespace) group_left strandline_queue_depth",
            {"namespace", "job", "state"},
        ),
        (
            "histogram_quantile(0.9, sum by (le, cause)"
            " (rate(strandline_attempt_seconds_bucket[5m])))",
            {"cause"},
        ),
        ("sum by (cause) (strandline_attempts_total) or sum(strandline_sources)", set()),
    ],
)
def test_the_labels_of_a_query_are_computed(query: str, labels: set[str]) -> None:
    assert read(query).labels == labels


def test_the_values_of_labels_are_known() -> None:
    assert "finished" in list_values("strandline_sources", "state")
    assert "ended" not in list_values("strandline_sources", "state")
    assert list_values("strandline_driver_stage_workers", "state") == {"all", "draining", "ready"}
    assert "TeardownOverdue" in list_values("strandline_pipelines", "reason")
    assert split_pattern("300(a|b)?|Claim.*") == ["300(a|b)?", "Claim.*"]


# Reasons without an alert: they pass without help, end an attempt within minutes, or were
# requested.
NOBODYS = {
    *(Reason.PENDING, Reason.QUEUED, Reason.STARTING, Reason.RUNNING, Reason.DRAINING),
    *(Reason.TEARING_DOWN, Reason.WAITING_TO_RETRY, Reason.RETRIES_HELD_BACK),
    *(Reason.DISPATCH_STOPPED, Reason.SUSPENDED, Reason.DELETING, Reason.COMPLETED),
    *(Reason.EVIDENCE_COMPLETE, Reason.APPLIED, Reason.WAITS_FOR_NEXT_ATTEMPT),
    *(Reason.WAITS_FOR_NEXT_RUN, Reason.OPERATOR_IS_OLDER, Reason.IMAGE_NOT_PULLED),
    *(Reason.NAMESPACE_TERMINATING, Reason.API_UNAVAILABLE, Reason.WAITS_FOR_PIPELINES),
    # If a check finds a problem, the run ends, and another alert reports the end.
    *(Reason.PREFLIGHT, Reason.PREFLIGHT_UNKNOWN, Reason.PREFLIGHT_FAILED),
    *(Reason.NO_ROOM, Reason.NODE_ON_ITS_WAY, Reason.PUBLISHED),
}


def test_reasons_that_wait_for_a_person_are_in_the_alert() -> None:
    (rule,) = (one for one in RULES if one.get("alert") == "StrandlinePipelinesBlocked")
    pattern = rule["expr"].partition('reason=~"')[2].partition('"')[0]
    assert {reason for reason in Reason if re.fullmatch(pattern, reason) is None} == NOBODYS


def test_the_chart_adds_its_labels_to_the_alerts(helm: Helm) -> None:
    manifests = helm.render("--set", "metrics.rules.enabled=true")
    (rules,) = of_kind(manifests, "PrometheusRule")
    (service,) = of_kind(manifests, "Service")
    metadata = service["metadata"]
    ours = f'namespace="{metadata["namespace"]}",job="{metadata["name"]}"'
    found = [rule for group in rules["spec"]["groups"] for rule in group["rules"]]
    assert [one["alert"] for one in found] == [rule["alert"] for rule in RULES]
    assert all(ours in rule["expr"] and "OURS" not in rule["expr"] for rule in found)
    assert "{{ $labels.cause }}" in str(found)


def test_the_chart_has_the_dashboard_unchanged(helm: Helm) -> None:
    manifests = helm.render("--set", "metrics.dashboard.enabled=true")
    (config,) = of_kind(manifests, "ConfigMap")
    assert config["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(config["data"]["strandline.json"]) == DASHBOARD
