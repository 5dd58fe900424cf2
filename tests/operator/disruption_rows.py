"""A table of disruptions: the fields of a removed pod and the expected diagnosis.

The module must not depend on how the operator makes the diagnosis.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from node_bodies import (
    AKS_SPOT,
    EKS_SPOT,
    GKE_SPOT,
    KARPENTER_ON_DEMAND,
    KARPENTER_SPOT,
    LOW_ON_MEMORY,
    NOT_FOUND,
    OLD_SHUTDOWN,
    REJECTED,
    SHUTTING_DOWN,
    SILENT,
    UNSCHEDULABLE,
    end_by_eviction,
    end_by_shutdown,
    spell_condition,
    spell_end,
    spell_node,
    spell_ready,
    spell_status,
    spell_taint,
    spell_target,
)
from strandline_api.outcome.disruptions import Disruption

Json = dict[str, Any]
EVICTED = end_by_eviction()
SHUT = end_by_shutdown()
GONE_STATUS = spell_status("Running")
COLLECTED = spell_status(
    "Failed", target=spell_target("DeletionByPodGC", "PodGC: node no longer exists")
)
BY_TAINT = spell_status(
    "Running",
    target=spell_target("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"),
)


class Row(NamedTuple):
    """The written fields of a disruption, and the expected diagnosis."""

    kind: Disruption
    status: Json
    node: Json | None
    says: str
    is_gone: bool = False


def taint(
    key: str, value: str = "", labels: Json | None = None, effect: str = "NoSchedule"
) -> Json:
    return spell_node(labels=labels, taints=[spell_taint(key, value, effect), UNSCHEDULABLE])


D = Disruption
NTH = "aws-node-termination-handler/"
OVER = 'Usage of EmptyDir volume "spill" exceeds the limit "1Gi". '
PREEMPTED = "Pod was preempted by Kubelet to accommodate a critical pod."
ROWS = {
    "GKE spot, shut down": Row(
        D.SPOT_RECLAIMED, SHUT, spell_node(labels=GKE_SPOT, conditions=[SHUTTING_DOWN]),
        "spot node node-1 was reclaimed",
    ),
    "GKE spot, the node not yet marked": Row(
        D.SPOT_RECLAIMED, SHUT, spell_node(labels=GKE_SPOT), "spot node node-1 was reclaimed"
    ),
    "GKE preemptible, late pod": Row(
        D.SPOT_RECLAIMED,
        spell_status("Failed", "NodeShutdown", REJECTED),
        spell_node(labels={"cloud.google.com/gke-preemptible": "true"}),
        "spot node node-1 was reclaimed",
    ),
    "GKE spot, impending termination": Row(
        D.SPOT_RECLAIMED, EVICTED,
        taint("cloud.google.com/impending-node-termination", "", GKE_SPOT),
        "spot node node-1 was reclaimed",
    ),
    "GKE, impending termination": Row(
        D.NODE_MAINTENANCE, EVICTED, taint("cloud.google.com/impending-node-termination"),
        "node node-1 was taken out for maintenance",
    ),
    "EKS spot, termination handler": Row(
        D.SPOT_RECLAIMED, EVICTED, taint(f"{NTH}spot-itn", "1a2b", EKS_SPOT),
        "spot node node-1 was reclaimed",
    ),
    "EKS spot, rebalance": Row(
        D.SPOT_RECLAIMED, EVICTED, taint(f"{NTH}rebalance-recommendation", "1a2b", EKS_SPOT),
        "spot node node-1 was reclaimed",
    ),
    "EKS, maintenance": Row(
        D.NODE_MAINTENANCE, EVICTED, taint(f"{NTH}scheduled-maintenance", "1a2b"),
        "node node-1 was taken out for maintenance",
    ),
    "EKS, scaling group": Row(
        D.NODE_SCALED_DOWN, EVICTED, taint(f"{NTH}asg-lifecycle-termination", "1a2b"),
        "node node-1 was removed by its scaling group",
    ),
    "Karpenter": Row(
        D.NODE_DISRUPTED, EVICTED, taint("karpenter.sh/disrupted", "", KARPENTER_ON_DEMAND),
        "Karpenter took node node-1 away",
    ),
    "Karpenter before 1.0": Row(
        D.NODE_DISRUPTED, EVICTED, taint("karpenter.sh/disruption", "disrupting", KARPENTER_SPOT),
        "Karpenter took node node-1 away",
    ),
    "Karpenter, whose grace is over, deletes": Row(
        D.NODE_DISRUPTED, GONE_STATUS, taint("karpenter.sh/disrupted", "", KARPENTER_SPOT),
        "Karpenter took node node-1 away", is_gone=True,
    ),
    "cluster autoscaler": Row(
        D.NODE_SCALED_DOWN, EVICTED, taint("ToBeDeletedByClusterAutoscaler", "1764100000"),
        "node node-1 was removed by the cluster autoscaler",
    ),
    "cluster autoscaler, a candidate": Row(
        D.NODE_SCALED_DOWN, EVICTED,
        taint("DeletionCandidateOfClusterAutoscaler", "1764100000", effect="PreferNoSchedule"),
        "node node-1 was removed by the cluster autoscaler",
    ),
    "AKS spot": Row(
        D.SPOT_RECLAIMED, EVICTED,
        taint("remediator.aks.microsoft.com/unschedulable", "", AKS_SPOT),
        "spot node node-1 was reclaimed",
    ),
    "AKS spot, since 2025": Row(
        D.SPOT_RECLAIMED, EVICTED,
        taint("remediator.kubernetes.azure.com/unschedulable", "", AKS_SPOT),
        "spot node node-1 was reclaimed",
    ),
    "AKS, repair": Row(
        D.NODE_MAINTENANCE, EVICTED, taint("remediator.kubernetes.azure.com/unschedulable"),
        "node node-1 was taken out for maintenance",
    ),
    "AKS, preemption by its detector": Row(
        D.SPOT_RECLAIMED, EVICTED,
        spell_node(labels=AKS_SPOT, conditions=[spell_condition("PreemptScheduled")]),
        "spot node node-1 was reclaimed",
    ),
    "AKS, preemption in the summary": Row(
        D.SPOT_RECLAIMED, EVICTED,
        spell_node(conditions=[spell_condition("VMEventScheduled", "PreemptScheduled")]),
        "spot node node-1 was reclaimed",
    ),
    "AKS, load balancer's taint": Row(
        D.SPOT_RECLAIMED, EVICTED,
        taint("cloudprovider.azure.microsoft.com/draining", "spot-eviction"),
        "spot node node-1 was reclaimed",
    ),
    "AKS, redeploy": Row(
        D.NODE_MAINTENANCE, EVICTED, spell_node(conditions=[spell_condition("RedeployScheduled")]),
        "node node-1 was taken out for maintenance",
    ),
    "AKS, reboot": Row(
        D.NODE_MAINTENANCE, EVICTED, spell_node(conditions=[spell_condition("RebootScheduled")]),
        "node node-1 was taken out for maintenance",
    ),
    "AKS, termination": Row(
        D.NODE_MAINTENANCE, EVICTED, spell_node(conditions=[spell_condition("TerminateScheduled")]),
        "node node-1 was taken out for maintenance",
    ),
    "a spot VM that was stopped": Row(
        D.SPOT_RECLAIMED, BY_TAINT,
        spell_node(
            labels=AKS_SPOT, conditions=[SILENT],
            taints=[spell_taint("node.cloudprovider.kubernetes.io/shutdown")],
        ),
        "spot node node-1 was reclaimed",
    ),
    "a VM that was stopped": Row(
        D.NODE_SHUTDOWN, BY_TAINT,
        spell_node(
            conditions=[SILENT], taints=[spell_taint("node.cloudprovider.kubernetes.io/shutdown")]
        ),
        "node node-1 was shut down",
    ),
    "drain": Row(
        D.NODE_DRAINED, EVICTED, spell_node(unschedulable=True, taints=[UNSCHEDULABLE]),
        "node node-1 was drained",
    ),
    "drain of a spot node": Row(
        D.NODE_DRAINED, EVICTED,
        spell_node(labels=GKE_SPOT, unschedulable=True, taints=[UNSCHEDULABLE]),
        "node node-1 was drained",
    ),
    "evicted by nobody known": Row(
        D.POD_EVICTED, EVICTED, spell_node(), "the pod was evicted from node node-1"
    ),
    "evicted, the node unreadable": Row(
        D.POD_EVICTED, EVICTED, None, "the pod was evicted from node node-1"
    ),
    "shut down": Row(D.NODE_SHUTDOWN, SHUT, spell_node(), "node node-1 was shut down"),
    "shut down, the node unreadable": Row(D.NODE_SHUTDOWN, SHUT, None, "node node-1 was shut down"),
    "shut down before 1.21": Row(
        D.NODE_SHUTDOWN,
        spell_status("Failed", "Shutdown", OLD_SHUTDOWN, state=spell_end(137)),
        spell_node(), "node node-1 was shut down",
    ),
    "shut down, in the condition alone": Row(
        D.NODE_SHUTDOWN,
        spell_status("Running", target=spell_target("TerminationByKubelet", SHUT["message"])),
        spell_node(), "node node-1 was shut down",
    ),
    "shut down by the autoscaler": Row(
        D.NODE_SCALED_DOWN, SHUT, taint("ToBeDeletedByClusterAutoscaler", "1", GKE_SPOT),
        "node node-1 was removed by the cluster autoscaler",
    ),
    "short of memory": Row(
        D.NODE_SHORTAGE,
        spell_status(
            "Failed", "Evicted", LOW_ON_MEMORY,
            target=spell_target("TerminationByKubelet", LOW_ON_MEMORY), state=spell_end(137),
        ),
        spell_node(labels=GKE_SPOT, conditions=[spell_condition("MemoryPressure")]),
        "node node-1 ran short of memory",
    ),
    "short of disk": Row(
        D.NODE_SHORTAGE,
        spell_status("Failed", "Evicted", "The node was low on resource: ephemeral-storage. "),
        spell_node(), "node node-1 ran short of disk",
    ),
    "short of inodes": Row(
        D.NODE_SHORTAGE,
        spell_status("Failed", "Evicted", "The node was low on resource: inodes. "),
        spell_node(), "node node-1 ran short of disk",
    ),
    "short of process ids": Row(
        D.NODE_SHORTAGE,
        spell_status("Failed", "Evicted", "The node was low on resource: pids. "),
        None, "node node-1 ran short of process ids",
    ),
    "not admitted by a node under pressure": Row(
        D.NODE_SHORTAGE,
        spell_status("Failed", "Evicted", "The node had condition: [DiskPressure]. "),
        spell_node(), "node node-1 ran short of disk",
    ),
    "a shortage in other words": Row(
        D.NODE_SHORTAGE,
        spell_status("Failed", "Evicted", "El nodo no tiene memoria"),
        spell_node(conditions=[spell_condition("MemoryPressure")]),
        "node node-1 ran short of memory",
    ),
    "more than its ephemeral storage": Row(
        D.POD_OVER_LIMIT,
        spell_status(
            "Failed", "Evicted",
            "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ",
        ),
        spell_node(conditions=[spell_condition("DiskPressure")]),
        "the pod used more of the disk of node node-1 than it is allowed",
    ),
    "a container over its ephemeral storage": Row(
        D.POD_OVER_LIMIT,
        spell_status(
            "Failed", "Evicted",
            'Container ray-worker exceeded its local ephemeral storage limit "1Gi". ',
        ),
        spell_node(), "the pod used more of the disk",
    ),
    "more than its emptyDir": Row(
        D.POD_OVER_LIMIT, spell_status("Failed", "Evicted", OVER), spell_node(labels=GKE_SPOT),
        "the pod used more of the disk",
    ),
    "preempted by the scheduler": Row(
        D.POD_PREEMPTED,
        spell_status(
            "Running",
            target=spell_target(
                "PreemptionByScheduler",
                "default-scheduler: preempting to accommodate a higher priority pod",
            ),
        ),
        spell_node(labels=GKE_SPOT), "a pod of higher priority preempted the pod on node node-1",
    ),
    "preempted by the scheduler, as before 1.26": Row(
        D.POD_PREEMPTED,
        spell_status("Running", target=spell_target("PreemptionByKubeScheduler")),
        spell_node(), "a pod of higher priority preempted the pod on node node-1",
    ),
    "preempted by the kubelet": Row(
        D.POD_PREEMPTED,
        spell_status(
            "Failed", "Preempting", "Preempted in order to admit critical pod",
            target=spell_target("TerminationByKubelet", PREEMPTED), state=spell_end(137),
        ),
        spell_node(), "a pod of higher priority preempted the pod on node node-1",
    ),
    "preempted by the kubelet, in the condition alone": Row(
        D.POD_PREEMPTED,
        spell_status("Running", target=spell_target("TerminationByKubelet", PREEMPTED)),
        None, "a pod of higher priority preempted the pod on node node-1",
    ),
    "by the kubelet, nobody knows why": Row(
        D.POD_EVICTED, spell_status("Running", target=spell_target("TerminationByKubelet")),
        spell_node(), "the pod was evicted from node node-1",
    ),
    "silent": Row(
        D.NODE_DIED, BY_TAINT,
        spell_node(
            labels=GKE_SPOT, conditions=[SILENT],
            taints=[spell_taint("node.kubernetes.io/unreachable", "", "NoExecute")],
        ),
        "node node-1 stopped answering",
    ),
    "not ready": Row(
        D.NODE_DIED, BY_TAINT,
        spell_node(
            conditions=[spell_ready("False", "PLEG is not healthy")],
            taints=[spell_taint("node.kubernetes.io/not-ready", "", "NoExecute")],
        ),
        "node node-1 stopped answering",
    ),
    "lost, as before there were conditions": Row(
        D.NODE_DIED,
        spell_status(
            "Running", "NodeLost", "Node node-1 which was running pod corpus-1-head is unresponsive"
        ),
        spell_node(conditions=[SILENT]), "node node-1 stopped answering",
    ),
    "a taint of somebody's": Row(
        D.NODE_TAINTED, BY_TAINT, spell_node(taints=[spell_taint("team", "x", "NoExecute")]),
        "a NoExecute taint of node node-1 evicted the pod",
    ),
    "out of service": Row(
        D.NODE_OUT_OF_SERVICE, BY_TAINT,
        spell_node(
            conditions=[SILENT],
            taints=[spell_taint("node.kubernetes.io/out-of-service", "nodeshutdown", "NoExecute")],
        ),
        "node node-1 was taken out of service",
    ),
    "its node's object is gone": Row(
        D.NODE_GONE, COLLECTED, None, "node node-1 was removed from the cluster"
    ),
    "a node that is being deleted": Row(
        D.NODE_GONE, EVICTED,
        spell_node(metadata={"deletionTimestamp": "2026-11-26T04:00:00Z"}),
        "node node-1 was removed from the cluster",
    ),
    "a sort that is not known yet": Row(
        D.POD_EVICTED, spell_status("Running", target=spell_target("SomethingNew", "for a reason")),
        spell_node(), "the pod was evicted from node node-1",
    ),
    "lost containers": Row(
        D.NODE_RESTARTED,
        spell_status("Failed", state=spell_end(137, "ContainerStatusUnknown", NOT_FOUND)),
        spell_node(), "node node-1 came back without the containers that it had",
    ),
    "lost containers, as containerd has it": Row(
        D.NODE_RESTARTED, spell_status("Running", state=spell_end(255, "Unknown")),
        None, "node node-1 came back without the containers that it had",
    ),
} | {
    f"not admitted: {reason}": Row(
        D.POD_REJECTED, spell_status("Failed", reason, f"Pod was rejected: {reason}"),
        spell_node(labels=GKE_SPOT), f"node node-1 did not admit the pod: {reason}",
    )
    for reason in (
        "OutOfcpu", "OutOfmemory", "OutOfpods", "OutOfnvidia.com/gpu", "OutOfephemeral-storage",
        "NodeAffinity", "NodePorts", "NodeName", "TaintToleration", "UnexpectedAdmissionError",
        "TopologyAffinityError",
    )
}  # fmt: skip
