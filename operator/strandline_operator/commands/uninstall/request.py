"""Parses and validates the flags of `strandline-operator uninstall`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from strandline_api.notation.quantities import parse_duration
from strandline_operator.settings import FlagParser

PROGRAM = "strandline-operator uninstall"


class HeldTreatment(StrEnum):
    """How to handle pipelines with the finalizer."""

    RELEASE = "release"
    WAIT = "wait"
    REFUSE = "refuse"


_TREATMENTS = {
    HeldTreatment.RELEASE: "remove the finalizer, and list RayJobs that continue",
    HeldTreatment.WAIT: "wait until no attempt is under way or due",
    HeldTreatment.REFUSE: "fail if an attempt is under way or due",
}


@dataclass(frozen=True, slots=True)
class UninstallRequest:
    """A request to uninstall the operator.

    Attributes:
        treatment: how to handle pipelines with the finalizer.
        namespaces: namespaces to search for pipelines; empty for all.
        deployment: namespace and name of the operator's Deployment, or None if it no longer runs.
        selector: labels of the operator's pods.
        timeout: maximum total duration in seconds.
        excluded: namespaces to skip, because the operator continues to watch them.
    """

    treatment: HeldTreatment
    namespaces: tuple[str, ...] = ()
    deployment: tuple[str, str] | None = None
    selector: str = ""
    timeout: float = 240.0
    excluded: tuple[str, ...] = ()


def read_request(arguments: Sequence[str]) -> UninstallRequest:
    """Parse the flags. Invalid flags end the process with exit code 64 and one sentence."""
    parser = FlagParser(
        prog=PROGRAM,
        description="Prepares the operator's removal: only the operator removes its finalizer.",
        epilog=f"Example: {PROGRAM} --pipelines release --deployment strandline/strandline",
        allow_abbrev=False,
    )
    described = "; ".join(f"{word}: {text}" for word, text in _TREATMENTS.items())
    parser.add_argument(
        "--pipelines",
        type=HeldTreatment,
        choices=list(HeldTreatment),
        required=True,
        help=described,
    )
    parser.add_argument(
        "--namespaces",
        type=_split,
        default=(),
        metavar="A,B",
        help="namespaces to search; all if empty",
    )
    parser.add_argument(
        "--except-namespaces",
        type=_split,
        default=(),
        metavar="A,B",
        help="namespaces to skip, because the operator stays there",
    )
    parser.add_argument(
        "--deployment",
        type=_read_deployment,
        metavar="NAMESPACE/NAME",
        help="the operator, which must be stopped first: otherwise it would restore its finalizer",
    )
    parser.add_argument(
        "--selector", default="", metavar="LABELS", help="labels of the operator's pods"
    )
    parser.add_argument(
        "--timeout",
        type=_read_seconds,
        default=240.0,
        metavar="TIME",
        help="maximum duration, such as '4m'",
    )
    flags = parser.parse_args(arguments)
    return UninstallRequest(
        flags.pipelines,
        flags.namespaces,
        flags.deployment,
        flags.selector,
        flags.timeout,
        flags.except_namespaces,
    )


def _split(text: str) -> tuple[str, ...]:
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


def _read_deployment(text: str) -> tuple[str, str]:
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name:
        raise argparse.ArgumentTypeError(f"must be NAMESPACE/NAME, not {text!r}")
    return namespace, name


def _read_seconds(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
