"""Marks that takers of a node write on it: the table, as data.

Names are those of the present releases of termination handlers, clouds, Karpenter and the cluster
autoscaler, and of those before that are still about. This room must not know how a mark is read.
"""

from __future__ import annotations

from dataclasses import dataclass

from strandline_api.outcome.disruptions import Disruption
from strandline_operator.model.nodes.marks import OUT_OF_SERVICE_TAINT

# Seconds. GCE and Azure give the short one; a kubelet keeps half of it for critical pods.
EC2_NOTICE, SHORT_NOTICE, SHUTDOWN_NOTICE = 120.0, 30.0, 15.0


@dataclass(frozen=True, slots=True)
class TakerMark:
    """A mark that a taker writes on a node.

    Attributes:
        name: of the taint or condition.
        kind: what it means on a node that is not known to be spot.
        spot_kind: what it means on one that is; None: the same.
        what: the taker's name, where the kind's sentence has one.
        value: of the taint; empty: any.
        seconds: from the mark to the node's end; None: its pods get their own grace.
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
# Karpenter takes its taint back when a replacement does not come, and a recommendation says only
# that a loss is likely. The deletion of the node, or of the pod, confirms either.
REVOCABLE = frozenset({*_KARPENTERS, _REBALANCE})
# The first of several marks counts: the most exact reason goes before the program that
# carries it out, and both before their effects.
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
# The mark takes nothing away by itself, and names the taker where a pod was evicted.
CANDIDATE = TakerMark(
    "DeletionCandidateOfClusterAutoscaler",
    Disruption.NODE_SCALED_DOWN,
    what="the cluster autoscaler",
)
DRAINED = TakerMark("unschedulable", Disruption.NODE_DRAINED)
# Azure's detector sums its events up in one condition, and names them in the reason.
SUMMARY = "VMEventScheduled"
