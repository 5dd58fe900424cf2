"""Why something is so, in words that never change: reasons of conditions.

Alerts and scripts compare these words, so one is never given another meaning. A condition that
speaks of a bad end has the cause for its reason; the words here are for everything else. This room
must not know when a condition is set.
"""

from enum import StrEnum


class ConditionType(StrEnum):
    """What a condition is about."""

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
        """One or two sentences for people: what it says, and when it is there."""
        return _CONDITIONS[self]


class Reason(StrEnum):
    """Why a condition is what it is, where that is not a cause."""

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
        """One sentence for people: what is so."""
        return _REASONS[self][0]

    @property
    def advice(self) -> str:
        """One or two sentences for people: what to do; empty where there is nothing to do."""
        return _REASONS[self][1]

    def explain(self, detail: str = "") -> str:
        """Put what is so, what exactly, and what to do about it into sentences on one line."""
        meaning = f"{self.meaning.rstrip('.')}: {detail.rstrip('.')}." if detail else self.meaning
        nothing, comma, choice = self.advice.partition("Nothing, or ")
        if comma:
            return f"{meaning} You may {choice}"
        return meaning if nothing.startswith("Nothing") else f"{meaning} {nothing}".rstrip()


_CONDITIONS = {
    ConditionType.SUCCEEDED: (
        "Whether the run, or the attempt, has reached its end well: Unknown while it goes on."
    ),
    ConditionType.STALLED: (
        "True where nothing goes on without help: the run has failed for good, or the spec is "
        "invalid. Absent otherwise."
    ),
    ConditionType.RECONCILING: "True until the first attempt runs. Absent afterwards.",
    ConditionType.SUSPENDED: "True while `suspend` holds the pipeline back. Absent otherwise.",
    ConditionType.STORAGE_READY: (
        "Whether the claims for ledger and outputs can be used, and have the size that is asked "
        "for."
    ),
    ConditionType.SPEC_APPLIED: (
        "Whether what runs is what the spec says: False while an edit waits for the next attempt "
        "or run, or where a check beforehand has found that the spec can't run; Unknown where that "
        "goes on or has come to nothing."
    ),
    ConditionType.FIELDS_IGNORED: (
        "True where the spec has fields that the operator does not know. Absent otherwise."
    ),
    ConditionType.PUBLISHED: (
        "Where the spec has `publish`: True once a run has met what it requires, with what "
        "`latest` leads to and where, and with `publish.to` the revision that is there; False "
        "where the last complete run did not, with each requirement."
    ),
    ConditionType.FROZEN: (
        "Of an attempt: True once its pods are gone, and its cause and evidence are final."
    ),
}

_REASONS = {
    Reason.PENDING: ("The first attempt has not been made yet.", ""),
    Reason.QUEUED: (
        "Kueue holds the attempt back, mostly until its queue has room.",
        (
            "Nothing, or look why with `kubectl describe workloads`: the queue may also be stopped "
            "or not there, or Kueue may have given the workload up."
        ),
    ),
    Reason.STARTING: ("The attempt's pods are on their way; its driver does not run yet.", ""),
    Reason.RUNNING: ("The driver runs.", ""),
    Reason.DRAINING: ("The driver was asked to finish what is in flight and to end.", ""),
    Reason.PREFLIGHT: ("A Job checks stages and parameters before a Ray cluster is made.", ""),
    Reason.PREFLIGHT_FAILED: (
        "Stages or parameters are wrong, so no Ray cluster was made.",
        "Correct what is named and apply the pipeline again, then retry by hand.",
    ),
    Reason.PREFLIGHT_UNKNOWN: (
        "Stages and parameters could not be checked beforehand, and the run goes on without that.",
        "Nothing, or set `preflight` to false where it never can be.",
    ),
    Reason.HELD: (
        "The run has failed, and `holdOnFailure` keeps its last attempt's pods for you to look.",
        (
            "Look, with `kubectl exec` into the head. They go by themselves; the annotation "
            "`strandline.dev/cancel` lets them go now, and `strandline.dev/retry` starts the next "
            "attempt when they have."
        ),
    ),
    Reason.TEARING_DOWN: ("The attempt has ended; its pods are still going.", ""),
    Reason.WAITING_TO_RETRY: (
        "The next attempt waits for its time, which is in `status.nextAttemptTime`.",
        "Nothing, or start it at once by the annotation `strandline.dev/retry`.",
    ),
    Reason.RETRIES_HELD_BACK: (
        "So many attempts start on the cluster that this one has to wait for its turn.",
        "Nothing, or find out what makes so many attempts end at once.",
    ),
    Reason.DISPATCH_STOPPED: (
        "The operator is set to start no attempts: its limit per minute is 0.",
        "Raise `retries-per-minute` of the operator; the run goes on by itself.",
    ),
    Reason.SUSPENDED: (
        "`suspend` is true.",
        "Set it to false to go on; what is finished stays finished.",
    ),
    Reason.DELETING: ("The pipeline is being deleted and waits for its pods to go.", ""),
    Reason.COMPLETED: (
        "Every source is finished, or quarantined within what is tolerated.",
        "Nothing. A new `runId` runs the pipeline again.",
    ),
    Reason.EVIDENCE_COMPLETE: ("The pods are gone, so nothing more can be learned.", ""),
    Reason.PUBLISHED: ("A complete run has met all of `publish.require`.", ""),
    Reason.APPLIED: ("What runs is what the spec says.", ""),
    Reason.WAITS_FOR_NEXT_ATTEMPT: (
        "The spec was edited; the next attempt will have the edit.",
        "Nothing, or set `suspend` to true and back to false to start that attempt now.",
    ),
    Reason.WAITS_FOR_NEXT_RUN: (
        "The spec was edited, and the run is over without the edit.",
        "Give a new `runId` to run it.",
    ),
    Reason.OPERATOR_IS_OLDER: (
        "The operator is older than the definitions.",
        (
            "Upgrade the operator to use these fields; where nobody set them, they are defaults "
            "that do no harm."
        ),
    ),
    Reason.CLAIM_BOUND: ("The claim has a volume.", ""),
    Reason.CLAIM_PENDING: (
        "The claim has no volume yet.",
        (
            "Where it stays so, `kubectl describe pvc` says why: no default storage class, or "
            "one that can't make a volume of this size and access mode."
        ),
    ),
    Reason.CLAIM_MISSING: (
        "There is no claim of the name that `storage` gives.",
        "Create it; the run goes on by itself.",
    ),
    Reason.CLAIM_LOST: (
        "The volume of the claim is gone, and the ledger or outputs with it.",
        "Restore the volume from a copy, or start over with a new pipeline.",
    ),
    Reason.CLAIM_DELETED: (
        "The claim is being deleted.",
        "No attempt starts on it. Restore it, or start over with a new pipeline.",
    ),
    Reason.CLAIM_REFUSED: (
        "The API server refused to make the claim.",
        "The message says why: mostly a quota, or a storage class that does not exist.",
    ),
    Reason.CLAIM_NOT_WRITABLE: (
        "The claim's access modes do not let pods write to it.",
        (
            "For the ledger name one that is ReadWriteOnce or ReadWriteOncePod, on local or block "
            "storage; for outputs one that is ReadWriteMany."
        ),
    ),
    Reason.CLAIM_NOT_SHARED: (
        "The head and all workers mount the claim, but its access modes are for one node or pod.",
        (
            "Name one that is ReadWriteMany, or write to a URL. With ReadWriteOnce, pods on other "
            "nodes than the first don't start."
        ),
    ),
    Reason.CLAIM_IN_USE: (
        "Another pod holds the claim, which only one may have.",
        "End that pod, or give each pipeline a claim of its own.",
    ),
    Reason.CLAIM_NOT_GROWN: (
        "The claim can be used, but does not get the size that `storage.ledger.size` asks for.",
        (
            "Choose a storage class with `allowVolumeExpansion` for the next pipeline, or have it "
            "set for this one; the next edit of the spec asks again."
        ),
    ),
    Reason.CLAIM_FULL: (
        "No space is left on the volume.",
        (
            "Raise `storage.ledger.size`, or make a claim of your own larger (`kubectl patch "
            "pvc`), or free some, then retry by hand."
        ),
    ),
    Reason.CODE_MISSING: (
        "There is no ConfigMap with Python files of the name in `code.configMap`.",
        "Create it in the pipeline's namespace; the run goes on by itself.",
    ),
    Reason.DEFAULTS_UNUSABLE: (
        "The namespace's defaults can't be read, and no attempt is made without them.",
        "Correct the ConfigMap; the run goes on by itself.",
    ),
    Reason.ACCOUNT_RESERVED: (
        "Pods of pipelines can't use the operator's own service account.",
        "Name another one in `ray.serviceAccountName`, or move the pipeline to another namespace.",
    ),
    Reason.WAITS_FOR_PIPELINES: (
        "The run begins when other pipelines have succeeded.",
        "Nothing, or start it without them by the annotation `strandline.dev/retry`.",
    ),
    Reason.COMES_AFTER_ITSELF: (
        "Pipelines wait for each other, so that none of them can begin.",
        "Take one of the names out of `after`, or out of the parameters.",
    ),
    Reason.INPUT_NOT_SHARED: (
        "What another pipeline has made can't be reached from the pods of this one.",
        "Have that pipeline write to a URL, or to a claim that `storage.output` names.",
    ),
    Reason.UNSCHEDULABLE: (
        "A pod of the attempt finds no node.",
        "Add nodes, ask for less, or correct node selectors and tolerations in the pod templates.",
    ),
    Reason.NO_ROOM: (
        "No node has room for a pod of the attempt at the moment, and none can be added.",
        (
            "Nothing, or have `spot.fallback` use other nodes after a while, or let "
            "`deadlines.preRunning` bound the wait, which costs no retry and no deadline otherwise."
        ),
    ),
    Reason.NODE_ON_ITS_WAY: ("A node for a pod of the attempt is being made.", ""),
    Reason.IMAGE_NOT_PULLED: (
        "A node can't pull an image of the attempt.",
        "Correct `ray.image`, or name the registry's secret in `ray.imagePullSecrets`.",
    ),
    Reason.CONTAINER_NOT_STARTED: (
        "A container of the attempt can't be started, or ends as soon as it is.",
        "Create the Secret or ConfigMap that is named, or correct the container's template.",
    ),
    Reason.VOLUME_NOT_MOUNTED: (
        "A pod's volume can't be mounted, or can't be attached to its node.",
        (
            "Create the Secret, ConfigMap or claim that is named. A volume that another node still "
            "has comes free when its pod there is gone."
        ),
    ),
    Reason.VOLUME_STILL_ATTACHED: (
        "A volume that one node may have is still attached to another, mostly one that is lost.",
        (
            "Nothing, or taint that node `node.kubernetes.io/out-of-service=nodeshutdown:NoExecute`"
            ", or delete its Node object, once it is off for good: that frees the volume at once. "
            "By itself it comes free some minutes after the pod there is gone."
        ),
    ),
    Reason.POD_NOT_READY: (
        "A pod of the attempt has run for more than a minute and is not Ready.",
        "Look at the log of its Ray container, and at its readiness probe in the pod template.",
    ),
    Reason.KUBERAY_MISSING: (
        "The cluster does not know the kind RayJob.",
        "Install KubeRay 1.6 or newer; the run goes on by itself.",
    ),
    Reason.KUBERAY_SILENT: (
        "KubeRay does not act on the attempt's RayJob.",
        "Look whether KubeRay's operator runs, watches this namespace, and what its log says.",
    ),
    Reason.DRIVER_NOT_REACHED: (
        "The operator can't reach the driver, which may well be at work.",
        (
            "Look for a NetworkPolicy that keeps the operator from the head pod's port, at the "
            "network plugin of both nodes, and at the head pod."
        ),
    ),
    Reason.DRAIN_HELD_BACK: (
        "A node is being drained, and this run holds it back.",
        (
            "Suspend the pipeline to let the node go at once, which keeps what is finished, or "
            "wait until the attempt has ended."
        ),
    ),
    Reason.TEARDOWN_OVERDUE: (
        "What an ended attempt has left does not go, so the next one may not start.",
        (
            "Look at the pods' node: where it is gone for good, delete its Node object. Look "
            "whether KubeRay's operator runs: it lets RayJobs go."
        ),
    ),
    Reason.NODE_NOT_ANSWERING: (
        "Nobody knows whether pods on a lost node have ended, so the next attempt may not start.",
        (
            "Bring the node back. Where it is gone for good, delete its Node object, or taint it "
            "`node.kubernetes.io/out-of-service`."
        ),
    ),
    Reason.NAME_TAKEN: (
        "An object of a name that the pipeline needs belongs to somebody else.",
        "Delete or rename that object, or give the pipeline another name.",
    ),
    Reason.PERMISSION_DENIED: (
        "The operator may not do something that it has to.",
        "Grant its service account what the message names; the chart has the roles.",
    ),
    Reason.OBJECT_REFUSED: (
        "The API server or a policy refused an object that the pipeline needs.",
        "The message says which and why: mostly a pod template, or a policy of the cluster.",
    ),
    Reason.QUOTA_USED_UP: (
        "A quota of the namespace does not allow what the pipeline needs.",
        "Nothing, or raise the quota or ask for less: it is tried again until there is room.",
    ),
    Reason.QUEUE_UNFIT: (
        "The queue can never let the attempt in as it is.",
        (
            "Correct what is named, or name another queue; then set `suspend` to true and back to "
            "false."
        ),
    ),
    Reason.NAMESAKE_RUNS: (
        "A former pipeline of this name has left something that may still run on its volume.",
        "Delete the RayJob that the pods belong to, or wait: the run goes on when all is gone.",
    ),
    Reason.NAMESPACE_TERMINATING: ("The namespace is being deleted; nothing starts in it.", ""),
    Reason.API_UNAVAILABLE: (
        "The API server does not answer, or not in time.",
        "Nothing: it is asked again until it does.",
    ),
}
