"""Roles, tokens, and pods of the chart fulfill laws for each case."""

from __future__ import annotations

from pathlib import Path

from helm_program import RELEASE, Helm
from manifests import is_hook, judge_pod, list_pods, name_of, of_kind
from renderings import NAMESPACED, cases, read_case, render

RIGHTS = ("Role", "ClusterRole")
WRITES = {"create", "update", "patch", "delete", "deletecollection"}


@cases
def test_every_pod_satisfies_the_restricted_profile(helm: Helm, case: Path) -> None:
    manifests = render(helm, case)
    pods = list(list_pods(manifests))
    # Pods of the operator and of the test, and of the removal hook if there is one.
    assert len(pods) == 2 + len(of_kind(manifests, "Job"))
    for pod in pods:
        assert judge_pod(pod) == []


@cases
def test_no_role_has_wildcard_permissions(helm: Helm, case: Path) -> None:
    for role in of_kind(render(helm, case), *RIGHTS):
        for rule in role["rules"]:
            for part in ("apiGroups", "resources", "verbs"):
                assert "*" not in rule[part], name_of(role)
            assert not {"pods/exec", "pods/attach"} & set(rule["resources"])
            if "secrets" in rule["resources"] and rule["verbs"] != ["create"]:
                # The operator may read only one Secret, by name: the key of attempts' tokens.
                (name,) = rule["resourceNames"]
                assert (name.endswith("-attempt-tokens"), rule["verbs"]) == (True, ["get"])
            assert not {"bind", "escalate", "impersonate"} & set(rule["verbs"])


@cases
def test_only_the_operator_and_its_removal_have_a_token(helm: Helm, case: Path) -> None:
    manifests = render(helm, case)
    for job in of_kind(manifests, "Job"):
        assert is_hook(job)
    for account in of_kind(manifests, "ServiceAccount"):
        assert account["automountServiceAccountToken"] is False
    (deployment,) = of_kind(manifests, "Deployment")
    assert deployment["spec"]["template"]["spec"]["automountServiceAccountToken"] is True
    (pod,) = of_kind(manifests, "Pod")
    assert pod["spec"]["automountServiceAccountToken"] is False


@cases
def test_a_namespaced_operator_has_no_permissions_elsewhere(helm: Helm, case: Path) -> None:
    manifests, namespaces = render(helm, case), read_case(case).get("watchNamespaces", [])
    (account,) = of_kind(manifests, "ServiceAccount")
    home = account["metadata"]["namespace"]
    found = of_kind(manifests, "RoleBinding", "ClusterRoleBinding")
    # The removal hook may have permissions in the operator's namespace, where it stops the
    # operator.
    assert {each["metadata"]["namespace"] for each in found if is_hook(each)} <= {home}
    bindings = [each for each in found if not is_hook(each)]
    keys = [each for each in bindings if each["metadata"]["name"].endswith("-tokens")]
    assert [each["metadata"]["namespace"] for each in keys] == [home]
    bindings = [each for each in bindings if each not in keys]
    if namespaces:
        assert [binding["metadata"]["namespace"] for binding in bindings] == namespaces
        assert {binding["roleRef"]["kind"] for binding in bindings} == {"Role"}
    else:
        assert [binding["kind"] for binding in bindings] == ["ClusterRoleBinding"]
    for binding in bindings:
        assert binding["subjects"] == [
            {
                "kind": "ServiceAccount",
                "name": account["metadata"]["name"],
                "namespace": account["metadata"]["namespace"],
            }
        ]


def test_a_namespaced_installation_makes_no_cluster_scoped_object(helm: Helm) -> None:
    kinds = {one["kind"] for one in render(helm, NAMESPACED)}
    assert not {kind for kind in kinds if kind.startswith(("Cluster", "Custom", "Priority"))}


def test_only_permission_to_read_nodes_is_cluster_wide(helm: Helm) -> None:
    manifests = helm.render("--set", "watchNamespaces={corpora}", "--set", "rbac.userRoles=false")
    (role,) = of_kind(manifests, "ClusterRole")
    (rule,) = role["rules"]
    assert rule == {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}
    (binding,) = of_kind(manifests, "ClusterRoleBinding")
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"][0]["namespace"] == RELEASE


def test_two_installations_share_no_cluster_scoped_object(helm: Helm) -> None:
    def wide(namespace: str) -> set[str]:
        found = helm.render("--namespace", namespace, "--set", "crds.install=false")
        return {name_of(one) for one in found if "namespace" not in one["metadata"]}

    assert wide("one")
    assert not wide("one") & wide("two")


def test_viewers_only_read_and_editors_touch_no_attempt(helm: Helm) -> None:
    roles = {
        role["metadata"]["name"].rpartition("-")[2]: role
        for role in of_kind(helm.render(), "ClusterRole")
        if any("aggregate" in label for label in role["metadata"]["labels"])
    }
    assert set(roles) == {"viewer", "editor"}
    assert not WRITES & {verb for rule in roles["viewer"]["rules"] for verb in rule["verbs"]}
    written = {name for rule in roles["editor"]["rules"] for name in rule["resources"]}
    assert written == {"curationpipelines"}
