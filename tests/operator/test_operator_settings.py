"""Settings from flags and environment variables, and the messages about invalid settings."""

from __future__ import annotations

import argparse
from dataclasses import fields

import pytest

from strandline_operator.model.limits import Limits
from strandline_operator.settings import (
    Settings,
    SettingsError,
    add_flags,
    format_flag,
    format_variable,
    read_settings,
)


def test_the_default_settings_equal_the_default_limits() -> None:
    settings = read_settings({}, {})
    assert settings.limits == Limits()
    assert settings.watched_namespaces == (None,)
    assert settings.retry_defaults.model_fields_set == set()


def test_every_limit_can_be_set() -> None:
    # OpenLineage's variables set the first; the operator draws the second.
    by_other_variables = {"reports_lineage", "token_key"}
    limits = {field.name for field in fields(Limits)}
    assert limits - set(Settings.model_fields) == by_other_variables


def test_variables_are_read_and_flags_win() -> None:
    environment = {
        "STRANDLINE_NAMESPACES": "one, two,one",
        "STRANDLINE_SETTLE": "1m30s",
        "STRANDLINE_OUTCOME": "7.5",
        "STRANDLINE_CONCURRENCY": "3",
        "STRANDLINE_FORCE_TEARDOWN": "true",
        "STRANDLINE_RETRY_DEFAULTS": '{"maxRetries": 5}',
        "STRANDLINE_RAY_VERSION": "",
        "UNRELATED": "x",
    }
    settings = read_settings({"concurrency": "4", "settle": None}, environment)

    assert settings.watched_namespaces == ("one", "two")
    assert (settings.limits.settle, settings.limits.outcome) == (90.0, 7.5)
    assert settings.concurrency == 4
    assert settings.limits.force_teardown is True
    assert settings.retry_defaults.model_fields_set == {"max_retries"}


def test_service_variables_of_kubernetes_are_ignored() -> None:
    environment = {"STRANDLINE_METRICS_PORT": "tcp://10.0.0.1:9090"}
    assert read_settings({}, environment).metrics_port == 9090


@pytest.mark.parametrize(
    ("flags", "environment", "said"),
    [
        ({}, {"CONCURRENCY": "0"}, "STRANDLINE_CONCURRENCY: must be at least 1, not '0'"),
        ({"concurrency": "x"}, {}, "--concurrency: must be a whole number, not 'x'"),
        (
            {},
            {"SETTLE": "soon"},
            "STRANDLINE_SETTLE: must be a duration such as '30s', '10m' or '1h30m', not 'soon'",
        ),
        ({}, {"SETTLE": "-1"}, "STRANDLINE_SETTLE: must be at least 0, not -1.0"),
        ({}, {"SETTLE": "inf"}, "STRANDLINE_SETTLE: must be a finite number, not inf"),
        (
            {},
            {"LOG_LEVEL": "LOUD"},
            "STRANDLINE_LOG_LEVEL: must be 'DEBUG', 'INFO', 'WARNING' or 'ERROR', not 'LOUD'",
        ),
        (
            {},
            {"RETRY_DEFAULTS": '{"maxRetrys": 1}'},
            "STRANDLINE_RETRY_DEFAULTS.maxRetrys: unknown field 'maxRetrys'; "
            "did you mean 'maxRetries'?",
        ),
        (
            {"retry_defaults": "{"},
            {},
            "--retry-defaults: must be JSON, such as '{\"maxRetries\": 5}'",
        ),
        (
            {},
            {"NAMESPACES": "a,B"},
            "STRANDLINE_NAMESPACES[1]: must be lowercase letters, digits and '-', "
            "such as 'my-name', not 'B'",
        ),
        (
            {"attempt_network": '{"kubray": []}'},
            {},
            "--attempt-network.kubray: unknown field 'kubray'; did you mean 'kuberay'?",
        ),
        ({}, {"METRICS_PORT": "8080"}, "'metrics-port' and 'liveness-port' must differ"),
    ],
)
def test_each_bad_value_gets_one_sentence(
    flags: dict[str, str], environment: dict[str, str], said: str
) -> None:
    variables = {f"STRANDLINE_{name}": value for name, value in environment.items()}
    with pytest.raises(SettingsError) as raised:
        read_settings(flags, variables)
    assert str(raised.value) == said


def test_each_problem_has_its_line() -> None:
    variables = {"STRANDLINE_CONCURRENCY": "0", "STRANDLINE_RESYNC": "0"}
    with pytest.raises(SettingsError) as raised:
        read_settings({}, variables)
    assert [line.partition(":")[0] for line in str(raised.value).splitlines()] == list(variables)


def test_every_setting_has_a_flag_that_names_its_variable() -> None:
    parser = argparse.ArgumentParser()
    add_flags(parser)
    text = " ".join(parser.format_help().split())
    for name in Settings.model_fields:
        assert f"{format_flag(name)} VALUE" in text
        assert f"[{format_variable(name)}]" in text
    assert parser.parse_args(["--namespaces", "a", "--namespaces", "b"]).namespaces == ["a", "b"]
    assert parser.parse_args([]).namespaces is None
