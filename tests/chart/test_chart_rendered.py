"""The rendered chart fulfills laws for each of the cases in its folder `ci`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from helm_program import CHART, RELEASE, Helm
from manifests import list_containers, list_pods, name_of, of_kind
from renderings import EVERYTHING, MINIMAL, NAMESPACED, cases, flags_of, parse, read_case, render
from strandline_api.spec.namespace_defaults import RayDefaults
from strandline_api.spec.policy import RetryPolicy
from strandline_api.spec.ray_cluster import PodSecurity
from strandline_api.spec.storage import OutputStorage
from strandline_operator.reconcile.caches.namespaces.defaults import OUTPUT, RAY, RETRY, parse_part
from strandline_operator.settings import Settings


@cases
def test_lint_reports_nothing(helm: Helm, case: Path) -> None:
    helm.run("lint", "--strict", CHART, "--values", case)


@cases
def test_every_object_has_the_labels_and_its_namespace(helm: Helm, case: Path) -> None:
    for one in render(helm, case):
        labels = one["metadata"]["labels"]
        assert labels["app.kubernetes.io/instance"] == RELEASE, name_of(one)
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        is_wide = one["kind"].startswith(("ClusterRole", "CustomResource"))
        assert is_wide != ("namespace" in one["metadata"]), name_of(one)


@cases
def test_the_flags_are_valid_and_match_the_values(helm: Helm, case: Path) -> None:
    settings, given = parse(flags_of(render(helm, case))), read_case(case)
    assert settings.namespaces == tuple(given.get("watchNamespaces", []))
    assert settings.log_level == given.get("settings", {}).get("logLevel", "INFO")
    assert settings.metrics_port == (
        given["metrics"].get("port", 0) if "metrics" in given else Settings().metrics_port
    )


def test_every_setting_reaches_the_operator(helm: Helm) -> None:
    flags = flags_of(render(helm, EVERYTHING))
    named = {flag.partition("=")[0] for flag in flags}
    wanted = {f"--{name.replace('_', '-')}" for name in Settings.model_fields} - {"--namespaces"}
    assert named == wanted
    settings, plain = parse(flags), Settings()
    names = Settings.model_fields
    assert [name for name in names if getattr(settings, name) == getattr(plain, name)] == [
        "namespaces",
        "read_nodes",  # off if the operator lacks the permission; another test covers it
    ]
    assert settings.retry_defaults.max_delay is None


def test_nodes_are_not_read_without_permission(helm: Helm) -> None:
    values = ("--set", "rbac.readNodes=false")
    assert parse(flags_of(helm.render(*values))).read_nodes is False


def test_users_may_be_left_to_the_platform(helm: Helm) -> None:
    case = yaml.safe_load(MINIMAL.read_text(encoding="utf-8"))
    assert case["podSecurity"] is None
    assert parse(flags_of(render(helm, MINIMAL))).pod_security == PodSecurity()


def test_the_default_values_keep_the_operators_defaults(helm: Helm) -> None:
    settings, own = parse(flags_of(helm.render())), Settings()
    changed: dict[str, object] = {
        "runtime_image": f"strandline/runtime:{app_version()}",
        "account": f"{RELEASE}/{RELEASE}",
    }
    # Copy the operator's labels, which only the chart sets.
    assert settings.attempt_network is not None
    assert settings.attempt_network.closes == "driver"
    changed["attempt_network"] = settings.attempt_network
    assert settings == own.model_copy(update=changed)


def app_version() -> str:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    return str(chart["appVersion"])


@cases
def test_all_images_come_from_the_values(helm: Helm, case: Path) -> None:
    given, version = read_case(case), app_version()
    image = {"repository": "strandline/operator", "tag": version, **given.get("image", {})}
    digest = image.get("digest")
    wanted = f"{image['repository']}@{digest}" if digest else "{repository}:{tag}".format(**image)
    for pod in list_pods(render(helm, case)):
        assert {container["image"] for container in list_containers(pod)} == {wanted}
        secrets = [secret["name"] for secret in pod.get("imagePullSecrets", [])]
        assert secrets == image.get("pullSecrets", [])


def test_an_upgrade_never_runs_two_operators(helm: Helm) -> None:
    (deployment,) = of_kind(helm.render(), "Deployment")
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}


def test_the_pod_may_take_longer_to_end_than_the_operator_waits(helm: Helm) -> None:
    for seconds in (0, 20, 300):
        manifests = helm.render("--set", f"shutdownGraceSeconds={seconds}")
        (deployment,) = of_kind(manifests, "Deployment")
        pod = deployment["spec"]["template"]["spec"]
        assert (
            pod["terminationGracePeriodSeconds"] == parse(flags_of(manifests)).shutdown_grace + 15
        )


def test_probes_use_the_operators_port(helm: Helm) -> None:
    manifests = helm.render("--set", "livenessPort=8099")
    (deployment,) = of_kind(manifests, "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports["liveness"] == parse(flags_of(manifests)).liveness_port == 8099
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"] == {"path": "/healthz", "port": "liveness"}


def test_the_operator_reaches_only_drivers_and_the_api_server(helm: Helm) -> None:
    manifests = render(helm, EVERYTHING)
    (policy,) = of_kind(manifests, "NetworkPolicy")
    server, drivers, lineage = policy["spec"]["egress"]
    assert [port["port"] for port in server["ports"]] == [6443]
    assert [port["port"] for port in drivers["ports"]] == [parse(flags_of(manifests)).driver_port]
    (to,) = drivers["to"]
    assert to["podSelector"]["matchExpressions"] == [
        {"key": "strandline.dev/pipeline-uid", "operator": "Exists"}
    ]
    assert lineage == read_case(EVERYTHING)["networkPolicy"]["egress"][0]
    opened = [port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]]
    assert opened == [8081, 9091]


def test_the_operators_selector_matches_no_other_pod(helm: Helm) -> None:
    manifests = render(helm, EVERYTHING)
    (deployment,) = of_kind(manifests, "Deployment")
    (test,) = of_kind(manifests, "Pod")
    own = deployment["spec"]["template"]["metadata"]["labels"]
    (service,) = of_kind(manifests, "Service")
    (budget,) = of_kind(manifests, "PodDisruptionBudget")
    (policy,) = of_kind(manifests, "NetworkPolicy")
    for selector in (
        deployment["spec"]["selector"]["matchLabels"],
        service["spec"]["selector"],
        budget["spec"]["selector"]["matchLabels"],
        policy["spec"]["podSelector"]["matchLabels"],
    ):
        assert selector.items() <= own.items()
        assert not selector.items() <= test["metadata"]["labels"].items()


def test_labels_of_users_do_not_hide_the_operator(helm: Helm) -> None:
    manifests = helm.render("--set", "podLabels.app\\.kubernetes\\.io/name=other")
    (deployment,) = of_kind(manifests, "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert labels["app.kubernetes.io/name"] == "strandline"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("replicas=2", "replicas"),
        ("image.tga=1", "tga"),
        ("settings.logLevl=INFO", "logLevl"),
        ("settings.logLevel=LOUD", "logLevel"),
        ("settings.settle=soon", "settle"),
        ("retryDefaults.maxRetry=3", "maxRetry"),
        ("retryDefaults.delay=soon", "delay"),
        ("namespaceDefaults.corpora.maxRetry=3", "maxRetry"),
        ("watchNamespaces={A}", "watchNamespaces"),
        ("metrics.serviceMonitor.enable=true", "enable"),
        ("runAsUser=0", "runAsUser"),
        ("shutdownGraceSeconds=-1", "shutdownGraceSeconds"),
        ("image.digest=1234", "digest"),
        ("attemptNetworkPolicy.kuberayForm={}", "kuberayForm"),
    ],
)
def test_meaningless_values_are_rejected(helm: Helm, given: str, told: str) -> None:
    done = helm.attempt("template", RELEASE, CHART, "--set", given)
    assert done.returncode != 0
    assert told in done.stderr


def test_an_operator_in_a_shared_watched_namespace_is_rejected(helm: Helm) -> None:
    """Users who may create pods in such a namespace could run pods as the operator."""
    beside = ("template", RELEASE, CHART, "--namespace", "speech", "--set")
    done = helm.attempt(*beside, "watchNamespaces={speech,video}")
    assert done.returncode != 0
    assert "speech is the operator's own namespace" in done.stderr
    assert helm.attempt(*beside, "watchNamespaces={speech}").returncode == 0
    assert helm.attempt(*beside, "watchNamespaces={video,corpora}").returncode == 0


def test_names_fit_for_a_release_name_of_any_length(helm: Helm) -> None:
    manifests = helm.run("template", "r" * 53, CHART, "--namespace", "n" * 63)
    for one in yaml.safe_load_all(manifests):
        if one and one["kind"] != "CustomResourceDefinition":
            assert len(one["metadata"]["name"]) <= (63 if "namespace" in one["metadata"] else 253)
            labels = one["metadata"]["labels"].values()
            assert all(re.fullmatch(r"[\w.-]{0,63}", label) for label in labels)


def test_the_definitions_are_generated_and_survive_a_removal(helm: Helm) -> None:
    found = of_kind(helm.render(), "CustomResourceDefinition")
    made = [
        yaml.safe_load(path.read_text(encoding="utf-8"))
        for path in (CHART.parents[1] / "crds").glob("*.yaml")
    ]
    assert {name_of(one) for one in found} == {name_of(one) for one in made}
    for one in found:
        assert one["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
        assert one["spec"] == next(each for each in made if name_of(each) == name_of(one))["spec"]


def test_namespace_defaults_are_readable_by_the_operator(helm: Helm) -> None:
    manifests = render(helm, NAMESPACED)
    (config,) = of_kind(manifests, "ConfigMap")
    assert (config["metadata"]["namespace"], config["metadata"]["name"]) == (
        "corpora",
        Settings().defaults_config_map,
    )
    policy, _ = parse_part(config, RETRY, RetryPolicy)
    assert (policy.max_retries, policy.delay) == (5, "30s")
    assert policy.model_fields_set == {"max_retries", "delay"}


def test_a_namespace_gets_all_defaults_that_the_operator_reads(helm: Helm) -> None:
    configs = {
        config["metadata"]["namespace"]: config
        for config in of_kind(render(helm, EVERYTHING), "ConfigMap")
        if config["metadata"]["name"] == read_case(EVERYTHING)["settings"]["defaultsConfigMap"]
    }
    assert configs.keys() == {"default", "corpora"}
    own, other = configs["default"], configs["corpora"]
    assert parse_part(own, RETRY, RetryPolicy)[0].max_retries == 2
    ray, _ = parse_part(own, RAY, RayDefaults)
    assert (ray.image, ray.version) == ("registry.example.org/team/curation:1.4", "2.60.0")
    assert ray.pod_template == {"spec": {"nodeSelector": {"pool": "batch"}}}
    assert ray.auth_options == {"mode": "token"}
    assert parse_part(own, OUTPUT, OutputStorage)[0].url == "s3://team/curated"
    assert other["data"].keys() == {OUTPUT}  # no other keys
    assert parse_part(other, OUTPUT, OutputStorage)[0].claim_name == "shared"


def test_the_notes_name_the_namespaces(helm: Helm) -> None:
    case = NAMESPACED
    told = helm.run("install", RELEASE, CHART, "--dry-run=client", "--values", case)
    assert "of these namespaces and no others: corpora, images." in told
    assert "KubeRay was not found" in told
