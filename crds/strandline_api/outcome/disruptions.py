"""Disruptions: a fixed list of reasons why a pod lost its node, more detailed than the causes.

A cause determines the budget; a disruption explains what took the node and what to do about it. The
value is the `reason` in the evidence. This module must not depend on how disruptions are detected.
"""

from enum import StrEnum

from strandline_api.outcome.causes import Cause


class Disruption(StrEnum):
    """A disruption of a pod from outside."""

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
        """Return the cause of an attempt that ended because of the disruption."""
        return _ROWS[self][0]

    @property
    def sentence(self) -> str:
        """Return a sentence with placeholders: `{node}` for the node, `{what}` for details."""
        return _ROWS[self][1]

    @property
    def marks(self) -> str:
        """Describe, for people, the marks on a pod or node that identify the disruption."""
        return _ROWS[self][2]

    @property
    def advice(self) -> str:
        """Return one or two sentences for people about what to do."""
        return _ROWS[self][3]

    def describe(self, node: str, what: str = "") -> str:
        """Describe what happened to a node. `what` names the scarce resource, or the program."""
        name = f"node {node}" if node else "node"
        return self.sentence.format(node=name, what=what or _UNNAMED.get(self, ""))


# Details to show if no object names the program or the scarce resource.
_UNNAMED = {
    Disruption.NODE_SCALED_DOWN: "an autoscaler",
    Disruption.NODE_SHORTAGE: "something",
    Disruption.POD_REJECTED: "no reason given",
}
_ELSEWHERE = "Nothing: the next attempt continues on another node."
_ROWS = {
    Disruption.SPOT_RECLAIMED: (
        Cause.PREEMPTED,
        "spot {node} was reclaimed",
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
            "Nothing: the next attempt continues. If it happens too often, choose other machine "
            "types or zones, or an on-demand node for the head."
        ),
    ),
    Disruption.POD_PREEMPTED: (
        Cause.PREEMPTED,
        "a pod of higher priority preempted the pod on {node}",
        (
            "Pod: DisruptionTarget `PreemptionByScheduler`; or `Preempting`, by the kubelet for a "
            "critical pod."
        ),
        "Nothing: the next attempt continues. If it happens often, set `ray.priorityClassName`.",
    ),
    Disruption.NODE_DRAINED: (
        Cause.EVICTED,
        "{node} was drained",
        (
            "Pod: DisruptionTarget `EvictionByEvictionAPI`. Node: cordoned, without any of the "
            "marks listed below."
        ),
        (
            "Nothing: the next attempt continues on another node, or when the node accepts pods "
            "again. A managed node group of EKS drains reclaimed spot nodes without another "
            "mark: then `capacity` is `spot`."
        ),
    ),
    Disruption.NODE_CONSOLIDATED: (
        Cause.EVICTED,
        "Karpenter consolidated {node}",
        "Node: taint `karpenter.sh/disrupted`. Event: `Underutilized` or `Empty`.",
        (
            "Nothing: the next attempt continues. If it happens too often, raise "
            "`consolidateAfter` of the NodePool, or change its budgets."
        ),
    ),
    Disruption.NODE_EXPIRED: (
        Cause.EVICTED,
        "Karpenter replaced {node}, which had reached its maximum age",
        "Node: taint `karpenter.sh/disrupted`. Event: `Expired`.",
        "Nothing: the next attempt continues. `expireAfter` of the NodePool limits a node's age.",
    ),
    Disruption.NODE_DRIFTED: (
        Cause.EVICTED,
        "Karpenter replaced {node}, which no longer matched its NodePool",
        "Node: taint `karpenter.sh/disrupted`. Event: `Drifted`.",
        "Nothing: the next attempt continues. The NodePool or its node class was changed.",
    ),
    Disruption.NODE_DISRUPTED: (
        Cause.EVICTED,
        "Karpenter took {node} away",
        (
            "Node: taint `karpenter.sh/disrupted`, before `karpenter.sh/disruption`. No event "
            "gives the reason."
        ),
        "Nothing: the next attempt continues. The events of the node and its NodeClaim show why.",
    ),
    Disruption.NODE_SCALED_DOWN: (
        Cause.EVICTED,
        "{node} was removed by {what}",
        (
            "Node: taint `ToBeDeletedByClusterAutoscaler`, or "
            "`aws-node-termination-handler/asg-lifecycle-termination`; an eviction beside "
            "`DeletionCandidateOfClusterAutoscaler`."
        ),
        "Nothing: the next attempt continues, on fewer or other nodes.",
    ),
    Disruption.NODE_MAINTENANCE: (
        Cause.EVICTED,
        "{node} was taken out for maintenance",
        (
            "Node: taint `aws-node-termination-handler/scheduled-maintenance`; condition "
            "`RebootScheduled`, `RedeployScheduled` or `TerminateScheduled`; on a node that is not "
            "a spot node `cloud.google.com/impending-node-termination`, "
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
            "Raise the pod's requests to its usage: `resources` of the group. Pods that use more "
            "than they request are evicted first."
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
            "The node was healthy: raise the limit of `ephemeral-storage`, or `sizeLimit` of the "
            "volume, in the pod template, or have the stage write less."
        ),
    ),
    Disruption.POD_EVICTED: (
        Cause.EVICTED,
        "the pod was evicted from {node}",
        "Pod: a DisruptionTarget or `Evicted`. Nothing on the node names the cause.",
        "Nothing: the next attempt continues. The API server's audit log shows who requested it.",
    ),
    Disruption.NODE_SHUTDOWN: (
        Cause.NODE_LOST,
        "{node} was shut down",
        (
            "Pod: `Terminated`, `NodeShutdown` or `Shutdown`. Node: not ready because of its "
            "shutdown, or taint `node.cloudprovider.kubernetes.io/shutdown`; not known as a spot "
            "node."
        ),
        _ELSEWHERE,
    ),
    Disruption.NODE_OUT_OF_SERVICE: (
        Cause.NODE_LOST,
        "{node} was taken out of service",
        "Node: taint `node.kubernetes.io/out-of-service`.",
        f"{_ELSEWHERE} Remove the taint when the node is back.",
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
        f"{_ELSEWHERE} Check the node before you reuse it.",
    ),
    Disruption.NODE_TAINTED: (
        Cause.NODE_LOST,
        "a NoExecute taint of {node} evicted the pod",
        "Pod: DisruptionTarget `DeletionByTaintManager`. Node: another NoExecute taint.",
        f"{_ELSEWHERE} Pods that must stay need a toleration in their template.",
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
            "`TaintToleration`, `UnexpectedAdmissionError`, `TopologyAffinityError` and similar "
            "reasons."
        ),
        f"{_ELSEWHERE} Usually the node had just restarted, with fewer devices or less capacity.",
    ),
}
