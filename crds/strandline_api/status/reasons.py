"""Condition types and reasons. Their spelling is part of the API and never changes.

Alerts and scripts compare these words, so the meaning of each word must not change either. A
condition about a failure has the cause as its reason; this module lists all other reasons. It must
not depend on when a condition is set.
"""

from enum import StrEnum


class ConditionType(StrEnum):
    """Types of conditions."""

    SUCCEEDED = "Succeeded"
    STALLED = "Stalled"
    RECONCILING = "Reconciling"
    SUSPENDED = "Suspended"
    STORAGE_READY = "StorageReady"
    SPEC_APPLIED = "SpecApplied"
    FIELDS_IGNORED = "FieldsIgnored"
    FROZEN = "Frozen"
    PUBLISHED = "Published"

    @property
    def meaning(self) -> str:
        """One or two sentences for people: what the condition means, and when it is present."""
        return _CONDITIONS[self]


class Reason(StrEnum):
    """The reason of a condition, unless the reason is a cause."""

    PENDING = "Pending"
    QUEUED = "Queued"
    STARTING = "Starting"
    RUNNING = "Running"
    DRAINING = "Draining"
    PREFLIGHT = "Preflight"
    PREFLIGHT_FAILED = "PreflightFailed"
    PREFLIGHT_UNKNOWN = "PreflightUnknown"
    HELD = "Held"
    TEARING_DOWN = "TearingDown"
    WAITING_TO_RETRY = "WaitingToRetry"
    RETRIES_HELD_BACK = "RetriesHeldBack"
    DISPATCH_STOPPED = "DispatchStopped"
    SUSPENDED = "Suspended"
    DELETING = "Deleting"
    COMPLETED = "Completed"
    EVIDENCE_COMPLETE = "EvidenceComplete"
    PUBLISHED = "Published"

    APPLIED = "Applied"
    WAITS_FOR_NEXT_ATTEMPT = "WaitsForNextAttempt"
    WAITS_FOR_NEXT_RUN = "WaitsForNextRun"
    OPERATOR_IS_OLDER = "OperatorIsOlder"

    CLAIM_BOUND = "ClaimBound"
    CLAIM_PENDING = "ClaimPending"
    CLAIM_MISSING = "ClaimMissing"
    CLAIM_LOST = "ClaimLost"
    CLAIM_DELETED = "ClaimDeleted"
    CLAIM_REFUSED = "ClaimRefused"
    CLAIM_NOT_WRITABLE = "ClaimNotWritable"
    CLAIM_NOT_SHARED = "ClaimNotShared"
    CLAIM_IN_USE = "ClaimInUse"
    CLAIM_NOT_GROWN = "ClaimNotGrown"
    CLAIM_FULL = "ClaimFull"

    CODE_MISSING = "CodeMissing"
    DEFAULTS_UNUSABLE = "DefaultsUnusable"
    ACCOUNT_RESERVED = "AccountReserved"

    WAITS_FOR_PIPELINES = "WaitsForPipelines"
    COMES_AFTER_ITSELF = "ComesAfterItself"
    INPUT_NOT_SHARED = "InputNotShared"

    UNSCHEDULABLE = "Unschedulable"
    NO_ROOM = "NoRoom"
    NODE_ON_ITS_WAY = "NodeOnItsWay"
    IMAGE_NOT_PULLED = "ImageNotPulled"
    CONTAINER_NOT_STARTED = "ContainerNotStarted"
    VOLUME_NOT_MOUNTED = "VolumeNotMounted"
    VOLUME_STILL_ATTACHED = "VolumeStillAttached"
    POD_NOT_READY = "PodNotReady"
    KUBERAY_MISSING = "KubeRayMissing"
    KUBERAY_SILENT = "KubeRaySilent"
    DRIVER_NOT_REACHED = "DriverNotReached"
    DRAIN_HELD_BACK = "DrainHeldBack"
    TEARDOWN_OVERDUE = "TeardownOverdue"
    NODE_NOT_ANSWERING = "NodeNotAnswering"
    NAME_TAKEN = "NameTaken"
    PERMISSION_DENIED = "PermissionDenied"
    OBJECT_REFUSED = "ObjectRefused"
    QUOTA_USED_UP = "QuotaUsedUp"
    QUEUE_UNFIT = "QueueUnfit"
    NAMESAKE_RUNS = "NamesakeRuns"
    NAMESPACE_TERMINATING = "NamespaceTerminating"
    API_UNAVAILABLE = "ApiUnavailable"

    @property
    def meaning(self) -> str:
        """One sentence for people about the situation."""
        return _REASONS[self][0]

    @property
    def advice(self) -> str:
        """One or two sentences for people about what to do, or empty if there is nothing to do."""
        return _REASONS[self][1]

    def describe(self, detail: str = "") -> str:
        """Join the meaning and a detail into a sentence without a final period."""
        meaning = self.meaning.rstrip(".")
        return f"{meaning}: {detail.rstrip('.')}" if detail else meaning

    def explain(self, detail: str = "") -> str:
        """Join the meaning, a detail, and the advice into sentences on one line."""
        meaning = f"{self.describe(detail)}." if detail else self.meaning
        nothing, comma, choice = self.advice.partition("Nothing, or ")
        if comma:
            return f"{meaning} You may {choice}"
        return meaning if nothing.startswith("Nothing") else f"{meaning} {nothing}".rstrip()


_CONDITIONS = {
    ConditionType.SUCCEEDED: "The result of the run or attempt. Unknown until it is final.",
    ConditionType.STALLED: (
        "True if a user must act: the run has failed for good, or the spec is invalid. Otherwise "
        "absent."
    ),
    ConditionType.RECONCILING: "True until the driver of the first attempt runs. Then absent.",
    ConditionType.SUSPENDED: "True while `suspend` is set. Otherwise absent.",
    ConditionType.STORAGE_READY: (
        "Whether the claims for the ledger and the outputs are usable and have the requested size."
    ),
    ConditionType.SPEC_APPLIED: (
        "Whether the current spec is in effect. False while an edit waits for the next attempt or "
        "run, or if the preflight check rejected the spec. Unknown while that check runs, or if it "
        "gave no result."
    ),
    ConditionType.FIELDS_IGNORED: (
        "True if the spec has fields that this operator does not support. Otherwise absent."
    ),
    ConditionType.PUBLISHED: (
        "Present if the spec has `publish`. True once a run has met its requirements: the message "
        "gives the target of `latest`, its location, and with `publish.to` the revision. False if "
        "the last complete run did not meet them: the message lists each requirement."
    ),
    ConditionType.FROZEN: (
        "For attempts: True once the pods are gone, and the cause and the evidence are final."
    ),
}

_REASONS = {
    Reason.PENDING: ("The first attempt has not been created yet.", ""),
    Reason.QUEUED: (
        "Kueue holds the attempt in a queue.",
        "Nothing, or see `kubectl describe workloads` for the state of the queue.",
    ),
    Reason.STARTING: ("The pods of the attempt are starting; its driver does not run yet.", ""),
    Reason.RUNNING: ("The driver is running.", ""),
    Reason.DRAINING: ("The driver is stopping and saves its work in progress.", ""),
    Reason.PREFLIGHT: (
        "A Job checks the stages and parameters before a Ray cluster is created.",
        "",
    ),
    Reason.PREFLIGHT_FAILED: (
        "The stages or parameters are invalid, so no Ray cluster was created.",
        (
            "Correct the error and apply the pipeline again, then set the annotation "
            "`strandline.dev/retry`."
        ),
    ),
    Reason.PREFLIGHT_UNKNOWN: (
        "The run continues without the preflight check, which gave no result.",
        "Nothing, or set `preflight` to false if the check can never run.",
    ),
    Reason.HELD: (
        "The run has failed, and `holdOnFailure` keeps the pods of its last attempt.",
        (
            "Inspect them with `kubectl exec`. They are deleted when the time is over. The "
            "annotation `strandline.dev/cancel` deletes them now; `strandline.dev/retry` also "
            "starts the next attempt."
        ),
    ),
    Reason.TEARING_DOWN: ("The attempt has ended, and its pods are being deleted.", ""),
    Reason.WAITING_TO_RETRY: (
        "The next attempt is due at `status.nextAttemptTime`.",
        "Nothing, or set the annotation `strandline.dev/retry` to start it now.",
    ),
    Reason.RETRIES_HELD_BACK: (
        "Too many attempts are starting on the cluster, so this attempt waits for its turn.",
        "Nothing, or find out why so many attempts fail at the same time.",
    ),
    Reason.DISPATCH_STOPPED: (
        "The operator starts no attempts, because its limit per minute is 0.",
        "Raise `retries-per-minute` of the operator; the run then continues.",
    ),
    Reason.SUSPENDED: (
        "`suspend` is true.",
        "Set it to false to resume. Finished sources stay finished.",
    ),
    Reason.DELETING: ("The pipeline is being deleted and waits until its pods are gone.", ""),
    Reason.COMPLETED: (
        "Every source is finished, or quarantined within the tolerated limit.",
        "Nothing. A new `runId` runs the pipeline again.",
    ),
    Reason.EVIDENCE_COMPLETE: ("The pods are gone, so the evidence is final.", ""),
    Reason.PUBLISHED: ("A complete run met all of `publish.require`.", ""),
    Reason.APPLIED: ("The current spec is in effect.", ""),
    Reason.WAITS_FOR_NEXT_ATTEMPT: (
        "The spec was edited. The edit takes effect with the next attempt.",
        "Nothing, or set `suspend` to true and back to false to start that attempt now.",
    ),
    Reason.WAITS_FOR_NEXT_RUN: (
        "The spec was edited after the run had ended.",
        "Set a new `runId` to run the edited spec.",
    ),
    Reason.OPERATOR_IS_OLDER: (
        "The operator is older than the CustomResourceDefinitions.",
        (
            "Upgrade the operator to use these fields. Fields that you did not set are harmless "
            "defaults."
        ),
    ),
    Reason.CLAIM_BOUND: ("The claim has a volume.", ""),
    Reason.CLAIM_PENDING: (
        "The claim has no volume yet.",
        (
            "If this persists, `kubectl describe pvc` shows why: no default storage class, or one "
            "that cannot provide a volume of this size and access mode."
        ),
    ),
    Reason.CLAIM_MISSING: (
        "A claim that `storage` names does not exist.",
        "Create the claim; the run then continues.",
    ),
    Reason.CLAIM_LOST: (
        "The volume of the claim is gone, and with it the ledger or the outputs.",
        "Restore the volume from a backup, or start over with a new pipeline.",
    ),
    Reason.CLAIM_DELETED: (
        "The claim is being deleted.",
        "No attempt starts on it. Restore it, or start over with a new pipeline.",
    ),
    Reason.CLAIM_REFUSED: (
        "The API server rejected the claim.",
        "Correct the cause: usually a quota, or a storage class that does not exist.",
    ),
    Reason.CLAIM_NOT_WRITABLE: (
        "Pods cannot write to the claim with its access modes.",
        (
            "For the ledger, name a ReadWriteOnce or ReadWriteOncePod claim on local or block "
            "storage; for outputs, a ReadWriteMany claim."
        ),
    ),
    Reason.CLAIM_NOT_SHARED: (
        "The head and all workers mount the claim, but its access modes allow one node or pod.",
        (
            "Name a ReadWriteMany claim, or write to a URL. With ReadWriteOnce, pods on other "
            "nodes than the first do not start."
        ),
    ),
    Reason.CLAIM_IN_USE: (
        "Another pod holds the claim, which only one pod can mount.",
        "Delete that pod, or give each pipeline its own claim.",
    ),
    Reason.CLAIM_NOT_GROWN: (
        "The claim is usable, but cannot grow to the size in `storage.ledger.size`.",
        (
            "Allow expansion in the storage class (`allowVolumeExpansion`) and edit the spec to "
            "request the size again, or choose another class for the next pipeline."
        ),
    ),
    Reason.CLAIM_FULL: (
        "The volume is full.",
        (
            "Raise `storage.ledger.size`, enlarge a claim of your own (`kubectl patch pvc`), or "
            "free space; then set the annotation `strandline.dev/retry`."
        ),
    ),
    Reason.CODE_MISSING: (
        "No ConfigMap with Python files has the name in `code.configMap`.",
        "Create it in the pipeline's namespace; the run then continues.",
    ),
    Reason.DEFAULTS_UNUSABLE: (
        "The namespace's defaults cannot be read, and no attempt starts without them.",
        "Correct the ConfigMap; the run then continues.",
    ),
    Reason.ACCOUNT_RESERVED: (
        "Pods of pipelines cannot use the operator's own service account.",
        "Name another one in `ray.serviceAccountName`, or move the pipeline to another namespace.",
    ),
    Reason.WAITS_FOR_PIPELINES: (
        "The run starts once other pipelines have succeeded.",
        "Nothing, or set the annotation `strandline.dev/retry` to start without them.",
    ),
    Reason.COMES_AFTER_ITSELF: (
        "Pipelines wait for each other in a circle, so none of them can start.",
        "Remove one of the names from `after`, or from the parameters.",
    ),
    Reason.INPUT_NOT_SHARED: (
        "The pods of this pipeline cannot reach the output of another pipeline.",
        "Have that pipeline write to a URL, or to a claim that `storage.output` names.",
    ),
    Reason.UNSCHEDULABLE: (
        "A pod of the attempt cannot be scheduled.",
        (
            "Add nodes, request less, or correct node selectors and tolerations in the pod "
            "templates."
        ),
    ),
    Reason.NO_ROOM: (
        "No node has room for a pod of the attempt, and none can be added.",
        (
            "Nothing, or set `spot.fallback` to use other nodes after a while, or bound the wait "
            "with `deadlines.preRunning`; otherwise it counts against no retry and no deadline."
        ),
    ),
    Reason.NODE_ON_ITS_WAY: ("A node for a pod of the attempt is being created.", ""),
    Reason.IMAGE_NOT_PULLED: (
        "A node cannot pull an image of the attempt.",
        "Correct `ray.image`, or name the registry's secret in `ray.imagePullSecrets`.",
    ),
    Reason.CONTAINER_NOT_STARTED: (
        "A container of the attempt cannot start, or ends at once.",
        "Create the missing Secret or ConfigMap, or correct the pod template.",
    ),
    Reason.VOLUME_NOT_MOUNTED: (
        "A volume of a pod cannot be mounted, or attached to the pod's node.",
        (
            "Create the missing Secret, ConfigMap or claim. A volume on another node becomes free "
            "when its pod there is gone."
        ),
    ),
    Reason.VOLUME_STILL_ATTACHED: (
        "A volume for a single node is still attached to another node, usually a lost one.",
        (
            "Nothing, or taint that node `node.kubernetes.io/out-of-service=nodeshutdown:NoExecute`"
            ", or delete its Node object, if it is off for good: that frees the volume at once. "
            "Otherwise it becomes free some minutes after its pod is gone."
        ),
    ),
    Reason.POD_NOT_READY: (
        "A pod of the attempt has run for more than a minute and is not Ready.",
        "Check the log of its Ray container, and the readiness probe in the pod template.",
    ),
    Reason.KUBERAY_MISSING: (
        "The cluster has no resource type RayJob.",
        "Install KubeRay 1.6 or newer; the run then continues.",
    ),
    Reason.KUBERAY_SILENT: (
        "KubeRay does not act on the attempt's RayJob.",
        "Check that KubeRay's operator runs and watches this namespace, and read its log.",
    ),
    Reason.DRIVER_NOT_REACHED: (
        "The operator cannot reach the driver, which may still be working.",
        (
            "Check for a NetworkPolicy that blocks the operator from the head pod's port, the "
            "network plugin of both nodes, and the head pod."
        ),
    ),
    Reason.DRAIN_HELD_BACK: (
        "A node is being drained, and this run delays the drain.",
        (
            "Suspend the pipeline to release the node now (finished sources stay finished), or "
            "wait until the attempt has ended."
        ),
    ),
    Reason.TEARDOWN_OVERDUE: (
        "Objects of an ended attempt remain, so the next attempt cannot start.",
        (
            "Check the node of the pods: if it is gone for good, delete its Node object. Check "
            "that KubeRay's operator runs: it removes the finalizer of RayJobs."
        ),
    ),
    Reason.NODE_NOT_ANSWERING: (
        "Pods on a lost node may still be running, so the next attempt cannot start.",
        (
            "Bring the node back. If it is gone for good, delete its Node object, or taint it "
            "`node.kubernetes.io/out-of-service`."
        ),
    ),
    Reason.NAME_TAKEN: (
        "An object with a name that the pipeline needs belongs to another owner.",
        "Delete or rename that object, or give the pipeline another name.",
    ),
    Reason.PERMISSION_DENIED: (
        "The operator lacks a permission that it needs.",
        "Grant its service account the permission in the message; the chart has the roles.",
    ),
    Reason.OBJECT_REFUSED: (
        "The API server or an admission policy rejected an object that the pipeline needs.",
        "Correct the cause: usually a pod template, or a policy of the cluster.",
    ),
    Reason.QUOTA_USED_UP: (
        "A quota of the namespace does not allow what the pipeline needs.",
        "Nothing, or raise the quota or request less: the operator retries until it fits.",
    ),
    Reason.QUEUE_UNFIT: (
        "The queue can never admit the attempt.",
        ("Correct the cause, or name another queue; then set `suspend` to true and back to false."),
    ),
    Reason.NAMESAKE_RUNS: (
        "Objects of an earlier pipeline of this name remain and may still use its volume.",
        "Delete the RayJob that owns the pods, or wait: the run continues when all are gone.",
    ),
    Reason.NAMESPACE_TERMINATING: ("The namespace is being deleted; nothing starts in it.", ""),
    Reason.API_UNAVAILABLE: (
        "The API server does not answer in time.",
        "Nothing: the operator repeats the request until the server answers.",
    ),
}
