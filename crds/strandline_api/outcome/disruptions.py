"""What takes a pod's node away, or the pod off its node: a fixed list, finer than that of causes.

A cause says which budget pays; a disruption says what took the node, and what to do about it. It
stands in the evidence as its `reason`. This room must not know how one is found out.
"""

from enum import StrEnum

from strandline_api.outcome.causes import Cause


class Disruption(StrEnum):
    """What befell a pod from outside."""

    SPOT_RECLAIMED = "SpotReclaimed"
    POD_PREEMPTED = "PodPreempted"
    NODE_DRAINED = "NodeDrained"
    NODE_CONSOLIDATED = "NodeConsolidated"
    NODE_EXPIRED = "NodeExpired"
    NODE_DRIFTED = "NodeDrifted"
    NODE_DISRUPTED = "NodeDisrupted"
    NODE_SCALED_DOWN = "NodeScaledDown"
    NODE_MAINTENANCE = "NodeMaintenance"
    NODE_SHORTAGE = "NodeShortage"
    POD_OVER_LIMIT = "PodOverLimit"
    POD_EVICTED = "PodEvicted"
    NODE_SHUTDOWN = "NodeShutdown"
    NODE_OUT_OF_SERVICE = "NodeOutOfService"
    NODE_GONE = "NodeGone"
    NODE_DIED = "NodeDied"
    NODE_TAINTED = "NodeTainted"
    NODE_RESTARTED = "NodeRestarted"
    POD_REJECTED = "PodRejected"

    @property
    def cause(self) -> Cause:
        """Return the cause that an attempt ends with for it."""
        return _ROWS[self][0]

    @property
    def sentence(self) -> str:
        """Return what has happened, with `{node}` for the node's name and `{what}` for details."""
        return _ROWS[self][1]

    @property
    def marks(self) -> str:
        """Return by what it is known, for people."""
        return _ROWS[self][2]

    @property
    def advice(self) -> str:
        """Return one or two sentences for people: what to do about it."""
        return _ROWS[self][3]

    def describe(self, node: str, what: str = "") -> str:
        """Describe what has happened to a node; `what` says which resource, or what did it."""
        name = f"node {node}" if node else "node"
        return self.sentence.format(node=name, what=what or _UNNAMED.get(self, ""))


# Takers, or resources that ran short, where no object names them.
_UNNAMED = {
    Disruption.NODE_SCALED_DOWN: "an autoscaler",
    Disruption.NODE_SHORTAGE: "something",
    Disruption.POD_REJECTED: "no reason given",
}
_ELSEWHERE = "Nothing: the next attempt goes on elsewhere."
_ROWS = {
    Disruption.SPOT_RECLAIMED: (
        Cause.PREEMPTED,
        "spot {node} was taken back",
        (
            "A spot node with the taint `aws-node-termination-handler/spot-itn` or "
            "`aws-node-termination-handler/rebalance-recommendation`, "
            "`cloudprovider.azure.microsoft.com/draining`, "
            "`cloud.google.com/impending-node-termination`, "
            "`node.cloudprovider.kubernetes.io/shutdown`, "
            "`remediator.aks.microsoft.com/unschedulable` or "
            "`remediator.kubernetes.azure.com/unschedulable`, with the condition "
            "`PreemptScheduled`, that was shut down (pod: `Terminated`, `NodeShutdown`), or that "
            "is gone. Karpenter's event `SpotInterrupted`."
        ),
        (
            "Nothing: the next attempt goes on. Where it happens too often, choose other machine "
            "types or zones, or nodes on demand for the head."
        ),
    ),
    Disruption.POD_PREEMPTED: (
        Cause.PREEMPTED,
        "pods of higher priority took the pod's place on {node}",
        (
            "Pod: DisruptionTarget `PreemptionByScheduler`; or `Preempting`, by the kubelet for a "
            "critical pod."
        ),
        "Nothing: the next attempt goes on. If it keeps happening, set `ray.priorityClassName`.",
    ),
    Disruption.NODE_DRAINED: (
        Cause.EVICTED,
        "{node} was drained",
        "Pod: DisruptionTarget `EvictionByEvictionAPI`. Node: cordoned, by nobody of those below.",
        (
            "Nothing: the next attempt goes on elsewhere, or when the node takes pods again. A "
            "managed node group of EKS drains spot nodes that are taken back, without another "
            "mark: then `capacity` is `spot`."
        ),
    ),
    Disruption.NODE_CONSOLIDATED: (
        Cause.EVICTED,
        "Karpenter consolidated {node}",
        "Node: taint `karpenter.sh/disrupted`. Event: `Underutilized` or `Empty`.",
        (
            "Nothing: the next attempt goes on. Where it happens too often, raise "
            "`consolidateAfter` of the NodePool, or its budgets."
        ),
    ),
    Disruption.NODE_EXPIRED: (
        Cause.EVICTED,
        "Karpenter replaced {node}, which had reached its age",
        "Node: taint `karpenter.sh/disrupted`. Event: `Expired`.",
        "Nothing: the next attempt goes on. `expireAfter` of the NodePool says how old nodes get.",
    ),
    Disruption.NODE_DRIFTED: (
        Cause.EVICTED,
        "Karpenter replaced {node}, which was no longer what its pool asks for",
        "Node: taint `karpenter.sh/disrupted`. Event: `Drifted`.",
        "Nothing: the next attempt goes on. Somebody has changed the NodePool or its node class.",
    ),
    Disruption.NODE_DISRUPTED: (
        Cause.EVICTED,
        "Karpenter took {node} away",
        (
            "Node: taint `karpenter.sh/disrupted`, before `karpenter.sh/disruption`. No event says "
            "why."
        ),
        "Nothing: the next attempt goes on. The events of the node and its NodeClaim say why.",
    ),
    Disruption.NODE_SCALED_DOWN: (
        Cause.EVICTED,
        "{node} was removed by {what}",
        (
            "Node: taint `ToBeDeletedByClusterAutoscaler`, or "
            "`aws-node-termination-handler/asg-lifecycle-termination`; an eviction beside "
            "`DeletionCandidateOfClusterAutoscaler`."
        ),
        "Nothing: the next attempt goes on, on fewer nodes or others.",
    ),
    Disruption.NODE_MAINTENANCE: (
        Cause.EVICTED,
        "{node} was taken out for maintenance",
        (
            "Node: taint `aws-node-termination-handler/scheduled-maintenance`; condition "
            "`RebootScheduled`, `RedeployScheduled` or `TerminateScheduled`; on a node that is no "
            "spot node `cloud.google.com/impending-node-termination`, "
            "`remediator.aks.microsoft.com/unschedulable` or "
            "`remediator.kubernetes.azure.com/unschedulable`."
        ),
        _ELSEWHERE,
    ),
    Disruption.NODE_SHORTAGE: (
        Cause.EVICTED,
        "{node} ran short of {what}",
        (
            'Pod: `Evicted`, "The node was low on resource: …" or "The node had condition: '
            '[MemoryPressure]."'
        ),
        (
            "Raise the pod's requests to what it uses: `resources` of the group. What uses more "
            "than it asks for goes first."
        ),
    ),
    Disruption.POD_OVER_LIMIT: (
        Cause.EVICTED,
        "the pod used more of the disk of {node} than it is allowed",
        (
            'Pod: `Evicted`, "Pod ephemeral local storage usage exceeds the total limit of '
            'containers …", "Container … exceeded its local ephemeral storage limit …" or "Usage '
            'of EmptyDir volume … exceeds the limit …".'
        ),
        (
            "The node was well: raise the limit of `ephemeral-storage`, or `sizeLimit` of the "
            "volume, in the pod template, or have the stage write less."
        ),
    ),
    Disruption.POD_EVICTED: (
        Cause.EVICTED,
        "the pod was evicted from {node}",
        "Pod: a DisruptionTarget or `Evicted`. Nothing on the node says by whom.",
        "Nothing: the next attempt goes on. The API server's audit log says who asked for it.",
    ),
    Disruption.NODE_SHUTDOWN: (
        Cause.NODE_LOST,
        "{node} was shut down",
        (
            "Pod: `Terminated`, `NodeShutdown` or `Shutdown`. Node: not ready since it is shutting "
            "down, or taint `node.cloudprovider.kubernetes.io/shutdown`; not known to be spot."
        ),
        _ELSEWHERE,
    ),
    Disruption.NODE_OUT_OF_SERVICE: (
        Cause.NODE_LOST,
        "{node} was taken out of service",
        "Node: taint `node.kubernetes.io/out-of-service`.",
        f"{_ELSEWHERE} Take the taint off when the node is back.",
    ),
    Disruption.NODE_GONE: (
        Cause.NODE_LOST,
        "{node} was removed from the cluster",
        "Pod: DisruptionTarget `DeletionByPodGC`. Node: its object is gone, or being deleted.",
        _ELSEWHERE,
    ),
    Disruption.NODE_DIED: (
        Cause.NODE_LOST,
        "{node} stopped answering",
        (
            "Pod: `NodeLost`, or DisruptionTarget `DeletionByTaintManager` beside the taint "
            "`node.kubernetes.io/unreachable` or `node.kubernetes.io/not-ready`."
        ),
        f"{_ELSEWHERE} Look at the node if it is to come back.",
    ),
    Disruption.NODE_TAINTED: (
        Cause.NODE_LOST,
        "a NoExecute taint of {node} evicted the pod",
        "Pod: DisruptionTarget `DeletionByTaintManager`. Node: a NoExecute taint of somebody's.",
        f"{_ELSEWHERE} What is to stay needs a toleration in its pod template.",
    ),
    Disruption.NODE_RESTARTED: (
        Cause.NODE_LOST,
        "{node} came back without the containers that it had",
        (
            "Pod: a container `ContainerStatusUnknown`; a pod that had `Failed` and is `Pending` "
            'again; "failed to reserve container name".'
        ),
        _ELSEWHERE,
    ),
    Disruption.POD_REJECTED: (
        Cause.NODE_LOST,
        "{node} did not admit the pod: {what}",
        (
            "Pod: `OutOfcpu`, `OutOfmemory`, `OutOfpods`, `NodeAffinity`, `NodePorts`, "
            "`TaintToleration`, `UnexpectedAdmissionError`, `TopologyAffinityError` and their like."
        ),
        f"{_ELSEWHERE} Mostly the node had just come back, with fewer devices or less room.",
    ),
}
