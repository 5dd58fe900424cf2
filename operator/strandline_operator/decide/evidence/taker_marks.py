"""Table of the marks on nodes that announce or explain the loss of a node.

Names come from current releases of termination handlers, clouds, Karpenter, and the cluster
autoscaler, and from older releases that are still in use. This module must not depend on how a mark
is read.
"""

from __future__ import annotations

from dataclasses import dataclass

from strandline_api.outcome.disruptions import Disruption
from strandline_operator.model.nodes.marks import OUT_OF_SERVICE_TAINT

# Seconds from notice to shutdown. GCE and Azure give the short notice; a kubelet reserves half of
# it for critical pods.
EC2_NOTICE, SHORT_NOTICE, SHUTDOWN_NOTICE = 120.0, 30.0, 15.0


@dataclass(frozen=True, slots=True)
class TakerMark:
    """A mark on a node that announces or explains its loss.

    Attributes:
        name: name of the taint or condition.
        kind: kind of disruption, unless the node is known to be a spot node.
        spot_kind: kind of disruption on a spot node, or None to use `kind`.
        what: name of the program that removes the node, if the message of `kind` has one.
        value: value of the taint; empty for any value.
        seconds: seconds from the mark to the node's end, or None if pods get their full grace
            period.
    """

    name: str
    kind: Disruption
    spot_kind: Disruption | None = None
    what: str = ""
    value: str = ""
    seconds: float | None = None


_SPOT, _MAINTENANCE = Disruption.SPOT_RECLAIMED, Disruption.NODE_MAINTENANCE
_AWS, _AZURE = "aws-node-termination-handler/", "remediator.kubernetes.azure.com/"
_REBALANCE = f"{_AWS}rebalance-recommendation"
_KARPENTERS = ("karpenter.sh/disrupted", "karpenter.sh/disruption")
# Marks that may be withdrawn: Karpenter removes its taint if a replacement fails, and a rebalance
# recommendation only predicts a likely loss. A deletion of the node or the pod confirms the loss.
REVOCABLE = frozenset({*_KARPENTERS, _REBALANCE})
# The first matching mark counts. Specific reasons come before marks of the programs that react to
# them, followed by marks of the effects.
TAINTS = (
    TakerMark(f"{_AWS}spot-itn", _SPOT, seconds=EC2_NOTICE),
    TakerMark("cloudprovider.azure.microsoft.com/draining", _SPOT, seconds=SHORT_NOTICE),
    TakerMark(_REBALANCE, _SPOT),
    TakerMark(f"{_AWS}scheduled-maintenance", _MAINTENANCE),
    TakerMark(
        f"{_AWS}asg-lifecycle-termination", Disruption.NODE_SCALED_DOWN, what="its scaling group"
    ),
    TakerMark(
        "ToBeDeletedByClusterAutoscaler",
        Disruption.NODE_SCALED_DOWN,
        what="the cluster autoscaler",
    ),
    TakerMark(_KARPENTERS[0], Disruption.NODE_DISRUPTED),
    TakerMark(_KARPENTERS[1], Disruption.NODE_DISRUPTED, value="disrupting"),
    TakerMark(
        "remediator.aks.microsoft.com/unschedulable", _MAINTENANCE, _SPOT, seconds=SHORT_NOTICE
    ),
    TakerMark(
        "remediator.kubernetes.azure.com/unschedulable", _MAINTENANCE, _SPOT, seconds=SHORT_NOTICE
    ),
    TakerMark(
        "cloud.google.com/impending-node-termination", _MAINTENANCE, _SPOT, seconds=SHORT_NOTICE
    ),
    TakerMark(
        "node.cloudprovider.kubernetes.io/shutdown", Disruption.NODE_SHUTDOWN, _SPOT, seconds=0.0
    ),
    TakerMark(OUT_OF_SERVICE_TAINT, Disruption.NODE_OUT_OF_SERVICE, seconds=0.0),
)
CONDITIONS = (
    TakerMark("PreemptScheduled", _SPOT, seconds=SHORT_NOTICE),
    TakerMark("TerminateScheduled", _MAINTENANCE),
    TakerMark("RedeployScheduled", _MAINTENANCE),
    TakerMark("RebootScheduled", _MAINTENANCE),
)
SHUTDOWN = TakerMark("NodeShutdown", Disruption.NODE_SHUTDOWN, _SPOT, seconds=SHUTDOWN_NOTICE)
DELETION = TakerMark("deletionTimestamp", Disruption.NODE_GONE)
GONE = TakerMark("NodeGone", Disruption.NODE_GONE, _SPOT, seconds=0.0)
DIED = TakerMark("NodeDied", Disruption.NODE_DIED)
# This mark does not remove a node by itself. It only identifies the origin of an eviction.
CANDIDATE = TakerMark(
    "DeletionCandidateOfClusterAutoscaler",
    Disruption.NODE_SCALED_DOWN,
    what="the cluster autoscaler",
)
DRAINED = TakerMark("unschedulable", Disruption.NODE_DRAINED)
# Azure's detector uses a single condition for all its events, and lists them in the condition's
# reason.
SUMMARY = "VMEventScheduled"
