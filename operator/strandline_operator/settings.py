"""Reads the settings of this installation: flags, then environment variables, then defaults.

Each invalid value is reported in one sentence. This module must not depend on how values are used.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from strandline_api.api_model import Label, ObjectName
from strandline_api.documents.problems import Problem
from strandline_api.documents.validation import problems_of
from strandline_api.notation.quantities import parse_duration
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.spec.policy import RetryPolicy
from strandline_api.spec.ray_cluster import PodSecurity
from strandline_operator.model.limits import Limits
from strandline_operator.model.network import AttemptNetwork

PREFIX = "STRANDLINE_"
# Beginnings of values that Kubernetes sets for services. A service `strandline-metrics` would set
# `STRANDLINE_METRICS_PORT`.
_SERVICE_LINKS = ("tcp://", "udp://", "sctp://")
_LIMITS = Limits()


class SettingsError(ValueError):
    """Raised if settings are invalid. The message has one line per problem."""


def _read_seconds(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        return parse_duration(value)


def _read_list(value: object) -> object:
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list):
        return value
    words = (part.strip() for text in value for part in str(text).split(","))
    return tuple(dict.fromkeys(word for word in words if word))


def _read_json(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value or "{}")
    except (ValueError, RecursionError):
        raise ValueError("must be JSON, such as '{\"maxRetries\": 5}'") from None


def _read_policy(value: object) -> object:
    if isinstance(value, RetryPolicy):
        return value
    return RetryPolicy.model_validate(_read_json(value), by_alias=True, by_name=False)


def _read_security(value: object) -> object:
    if isinstance(value, PodSecurity):
        return value
    return PodSecurity.model_validate(_read_json(value), by_alias=True, by_name=False)


Seconds = Annotated[float, Field(ge=0), BeforeValidator(_read_seconds)]
Port = Annotated[int, Field(ge=0, le=65535)]


class Settings(BaseModel):
    """All settings. A duration is text such as '30s' or '5m', or a number of seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    namespaces: Annotated[tuple[Label, ...], BeforeValidator(_read_list)] = Field(
        default=(), description="Namespaces to work in, separated by commas. All if empty."
    )
    concurrency: int = Field(
        default=32, ge=1, le=256, description="Pipelines that are processed concurrently."
    )
    retries_per_minute: float = Field(
        default=120,
        ge=0,
        description="Attempts that may start per minute across the cluster; 0 starts none.",
    )
    defaults_config_map: ObjectName = Field(
        default="strandline-defaults",
        description="ConfigMap in a namespace with defaults: keys 'retry', 'ray' and 'output'.",
    )
    retry_defaults: Annotated[RetryPolicy, BeforeValidator(_read_policy)] = Field(
        default_factory=RetryPolicy, description="Defaults of the retry policy, as JSON."
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="Lowest level of logged lines."
    )
    log_format: Literal["json", "text"] = Field(
        default="json", description="One JSON object per line, or text for people."
    )
    metrics_port: Port = Field(default=9090, description="Port of /metrics; 0 disables it.")
    liveness_port: Port = Field(default=8080, description="Port of /healthz; 0 disables it.")
    shutdown_grace: Seconds = Field(
        default=20.0, description="Maximum wait for running passes on shutdown."
    )
    kuberay_expected: bool = Field(
        default=True, description="Log a message if KubeRay is not installed."
    )
    read_nodes: bool = Field(
        default=True,
        description="Read nodes of pods, to detect lost nodes and the reasons of disruptions.",
    )
    settle: Seconds = Field(
        default=_LIMITS.settle, description="Time to wait for late evidence of an attempt's end."
    )
    outcome: Seconds = Field(
        default=_LIMITS.outcome, description="Maximum wait for the driver's own report after that."
    )
    submitter: Seconds = Field(
        default=_LIMITS.submitter,
        description="Maximum time that a RayJob may run after its submitter has ended.",
    )
    teardown: Seconds = Field(
        default=_LIMITS.teardown,
        description="Maximum time for pods of an ended attempt to terminate.",
    )
    force_teardown: bool = Field(
        default=_LIMITS.force_teardown,
        description="Force-delete pods that take longer, although they may still be running.",
    )
    pre_running: Seconds = Field(
        default=_LIMITS.pre_running,
        description="Maximum time until a driver runs, if the pipeline sets none.",
    )
    image_pull: Seconds = Field(
        default=_LIMITS.image_pull, description="Maximum time for which image pulls may fail."
    )
    pull_interval: Annotated[Seconds, Field(ge=1)] = Field(
        default=_LIMITS.pull_interval, description="Interval between requests to a driver."
    )
    status_interval: Seconds = Field(
        default=_LIMITS.status_interval, description="Interval between status writes of progress."
    )
    resync: Annotated[Seconds, Field(ge=1)] = Field(
        default=_LIMITS.resync, description="Maximum time between two passes over a pipeline."
    )
    runtime_image: Annotated[str, Field(min_length=1)] = Field(
        default=_LIMITS.runtime_image, description="Image of Ray pods, if the pipeline sets none."
    )
    ray_version: str = Field(default=_LIMITS.ray_version, description="Ray version in that image.")
    driver_port: Annotated[int, Field(ge=1, le=65535)] = Field(
        default=_LIMITS.driver_port, description="Port of drivers."
    )
    dashboard_host: Annotated[str, Field(min_length=1)] = Field(
        default=_LIMITS.dashboard_host,
        description="Address of Ray's dashboard in the head; '::' if pods have only IPv6.",
    )
    pod_security: Annotated[PodSecurity, BeforeValidator(_read_security)] = Field(
        default=_LIMITS.pod_security,
        description="Users and groups of Ray pods, as JSON; with '{}' the cluster chooses them.",
    )
    preflight: bool = Field(
        default=_LIMITS.preflight,
        description="Check pipelines without a setting in a Job before a cluster is created.",
    )
    preflight_longest: Seconds = Field(
        default=_LIMITS.preflight_longest,
        description="Maximum duration of a check; afterwards the run continues without its result.",
    )
    account: Annotated[str, Field(pattern=r"^([a-z0-9-]+/[a-z0-9.-]+)?$")] = Field(
        default=_LIMITS.account,
        description="Namespace and name of the operator's service account, which pods of pipelines "
        "must not use.",
    )
    attempt_network: Annotated[AttemptNetwork | None, BeforeValidator(_read_json)] = Field(
        default=_LIMITS.attempt_network,
        description="Peers that may reach the pods of attempts, as JSON; 'null' creates no policy.",
    )

    @property
    def limits(self) -> Limits:
        """The settings that decisions depend on."""
        names = (field.name for field in fields(Limits) if field.name in type(self).model_fields)
        return Limits(**{name: getattr(self, name) for name in names})

    @property
    def watched_namespaces(self) -> tuple[str | None, ...]:
        """The namespaces to watch. A single None means all namespaces."""
        return self.namespaces or (None,)

    @model_validator(mode="after")
    def _check_ports(self) -> Self:
        if self.metrics_port and self.metrics_port == self.liveness_port:
            raise ValueError("'metrics-port' and 'liveness-port' must differ")
        return self


class FlagParser(argparse.ArgumentParser):
    """Parser that ends the process with exit code 64 and one sentence if a flag is invalid."""

    def error(self, message: str) -> None:  # type: ignore[override]
        self.exit(ExitCode.BAD_SPEC, f"{self.prog}: {message}; --help lists the options\n")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add a flag for each setting to a parser."""
    for name, field in Settings.model_fields.items():
        is_list = name == "namespaces"
        parser.add_argument(
            format_flag(name),
            dest=name,
            action="append" if is_list else "store",
            metavar="VALUE",
            help=f"{field.description} [{format_variable(name)}]".replace("%", "%%"),
        )


def read_settings(flags: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    """Return the settings from flags and environment variables. Flags take precedence.

    Args:
        flags: values by setting name, or None for flags that were not given.
        environment: environment variables of the process.

    Raises:
        SettingsError: if a value is invalid.
    """
    names = Settings.model_fields
    set_here = {name: environment.get(format_variable(name), "") for name in names}
    variables = {
        name: value
        for name, value in set_here.items()
        if value and not value.startswith(_SERVICE_LINKS)
    }
    facts = {name: value for name, value in flags.items() if value is not None}
    try:
        return Settings.model_validate(variables | facts)
    except ValidationError as error:
        problems = problems_of(error, Settings, "")
        raise SettingsError("\n".join(_describe(problem, facts) for problem in problems)) from None


def format_flag(name: str) -> str:
    """Return the flag of a setting, such as `--log-level`."""
    return f"--{name.replace('_', '-')}"


def format_variable(name: str) -> str:
    """Return the environment variable of a setting, such as `STRANDLINE_LOG_LEVEL`."""
    return f"{PREFIX}{name.upper()}"


def _describe(problem: Problem, flags: Sequence[str] | Mapping[str, Any]) -> str:
    name = problem.path.partition(".")[0].partition("[")[0]
    if name not in Settings.model_fields:
        return str(problem)
    source = format_flag(name) if name in flags else format_variable(name)
    return f"{source}{problem.path[len(name) :]}: {str(problem).partition(': ')[2]}"
