"""Operator settings that affect decisions and manifests."""

from __future__ import annotations

from dataclasses import dataclass, field

from strandline_api.spec.ray_cluster import PodSecurity
from strandline_operator.model.network import AttemptNetwork

# User and group IDs in both images. With `{}`, the cluster chooses the IDs.
POD_SECURITY = PodSecurity(run_as_user=1000, fs_group=1000, fs_group_change_policy="OnRootMismatch")


@dataclass(frozen=True, slots=True)
class Limits:
    """Durations in seconds, names, and images of this installation.

    Attributes:
        settle: time from the first sign of an attempt's end to its teardown, to collect late
            evidence.
        outcome: maximum time from the end to the teardown while the driver may still report.
        submitter: time from the submitter's end, without a driver report, until the attempt is
            ended, regardless of the RayJob.
        teardown: time from the deletion of a RayJob until remaining pods are reported.
        force_teardown: whether pods that remain after `teardown` are force-deleted.
        pre_running: maximum time until the driver runs, if the pipeline does not set it.
        image_pull: maximum time for which an image pull may fail.
        pull_interval: interval between requests to a driver.
        status_interval: minimum interval between status writes that change only the progress.
        resync: interval between passes without events.
        runtime_image, ray_version: the driver's image and the Ray version in it, if the pipeline
            does not set them.
        driver_port: port of the driver's endpoint.
        dashboard_host: address on which Ray's dashboard listens in the head pod.
        reports_lineage: whether the operator reports the ends of attempts to a lineage system. If
            so, drivers use the operator's run names, and do not report the ends of lost runs.
        pod_security: users and groups of Ray pods, if the pipeline does not set them.
        preflight: whether a Job checks a pipeline before its cluster is created, if the pipeline
            does not specify it.
        preflight_longest: maximum duration of a check, from the creation of its Job.
        account: namespace and name of the operator's own service account; empty if unknown.
        attempt_network: peers that may reach an attempt's pods, or None for no restriction.
        token_key: key from which tokens of attempts derive; empty if no tokens are needed, for
            example to print manifests.
    """

    settle: float = 3.0
    outcome: float = 20.0
    submitter: float = 45.0
    teardown: float = 600.0
    force_teardown: bool = False
    pre_running: float = 1800.0
    image_pull: float = 300.0
    pull_interval: float = 15.0
    status_interval: float = 30.0
    resync: float = 60.0
    runtime_image: str = "strandline/runtime:latest"
    ray_version: str = "2.60.0"  # pinned in constraints.txt, from which the image is built
    driver_port: int = 8780
    dashboard_host: str = "0.0.0.0"  # noqa: S104 - the submitter connects from another pod
    reports_lineage: bool = False
    pod_security: PodSecurity = POD_SECURITY
    preflight: bool = False
    preflight_longest: float = 120.0
    account: str = ""
    attempt_network: AttemptNetwork | None = None
    token_key: bytes = field(default=b"", repr=False)
