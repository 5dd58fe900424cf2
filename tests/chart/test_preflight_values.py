"""The chart's values enable the preflight check of pipelines."""

from __future__ import annotations

from helm_program import Helm
from manifests import of_kind
from renderings import flags_of, parse


def test_permission_to_make_jobs_is_given_only_with_preflight_checks(helm: Helm) -> None:
    def find_verbs(*values: str) -> list[list[str]]:
        rules = [
            rule for role in of_kind(helm.render(*values), "ClusterRole") for rule in role["rules"]
        ]
        return [rule["verbs"] for rule in rules if "jobs" in rule["resources"]]

    assert find_verbs("--set", "preflight.enabled=true") == [["get", "create", "delete"]]
    assert find_verbs() == []


def test_the_operator_gets_the_preflight_flag(helm: Helm) -> None:
    on = ("--set", "preflight.enabled=true,preflight.longest=90s")
    for values, expected in (((), (False, 120.0)), (on, (True, 90.0))):
        limits = parse(flags_of(helm.render(*values))).limits
        assert (limits.preflight, limits.preflight_longest) == expected
