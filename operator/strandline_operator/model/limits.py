"""What the operator was configured with, as far as decisions and manifests depend on it."""

from __future__ import annotations

from dataclasses import dataclass, field

from strandline_api.spec.ray_cluster import PodSecurity
from strandline_operator.model.network import AttemptNetwork

# Ids of the user that both images have. With `{}` the cluster chooses instead.
POD_SECURITY = PodSecurity(run_as_user=1000, fs_group=1000, fs_group_change_policy="OnRootMismatch")


@dataclass(frozen=True, slots=True)
class Limits:
    """Times in seconds, names, and the images of this installation.

    Attributes:
        settle: from the first sign of an attempt's end to its teardown, so that evidence that
            comes late is caught.
        outcome: longest wait for the driver's own word after that.
        submitter: from the submitter's end without a word of the driver to taking that as the
            attempt's end, whatever the RayJob says.
        teardown: from the deletion of a RayJob to the condition that its pods do not go.
        force_teardown: pods that do not go are deleted by force then.
        pre_running: longest time until the driver runs, where the pipeline names none.
        image_pull: longest time that an image can't be pulled.
        pull_interval: from one question to the driver to the next.
        status_interval: from one write of mere progress to the next.
        resync: from one pass to the next where nothing happens.
        runtime_image, ray_version: of the driver and Ray, where the pipeline names none.
        driver_port: where the driver answers.
        dashboard_host: address at which Ray's dashboard answers in the head.
        reports_lineage: the operator reports attempts' ends to a lineage system, so that drivers
            are to name their runs as it does and to leave lost ones to it.
        pod_security: users and groups of Ray pods, where the pipeline says nothing of them.
        preflight: pipelines are checked in a Job before a cluster is made, where they say nothing.
        preflight_longest: longest time that such a check may take, from the making of its Job.
        account: namespace and name of the operator's own service account; empty: not known.
        attempt_network: which peers may reach an attempt's pods; None: all that the cluster lets.
        token_key: secret from which tokens of attempts are derived; empty where none is made, as
            for manifests that are only printed.
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
    ray_version: str = "2.60.0"  # as pinned in constraints.txt, from which that image is made
    driver_port: int = 8780
    dashboard_host: str = "0.0.0.0"  # noqa: S104 - the submitter asks it from another pod
    reports_lineage: bool = False
    pod_security: PodSecurity = POD_SECURITY
    preflight: bool = False
    preflight_longest: float = 120.0
    account: str = ""
    attempt_network: AttemptNetwork | None = None
    token_key: bytes = field(default=b"", repr=False)
