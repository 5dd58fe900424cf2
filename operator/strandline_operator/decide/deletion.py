"""A pipeline that is being deleted: its attempt ends, its pods go, then it is let go."""

from __future__ import annotations

from strandline_api.names import FINALIZER
from strandline_operator.decide.attempts.report import report_deletion
from strandline_operator.decide.nodes import describe_wait, part_pods
from strandline_operator.decide.plan_builder import Draft
from strandline_operator.model.plan import Delete, Plan, Resource, SetFinalizer


def delete(draft: Draft) -> Plan:
    """What one pass over it does.

    Its claim stays unless the claim is the pipeline's own, in which case the API server's garbage
    collection takes it. A RayJob that KubeRay does not let go of is not waited for: pods are.
    """
    view = draft.view
    if FINALIZER not in view.pipeline.meta.finalizers:
        return draft.finish()
    for rayjob in view.rayjobs:
        if not rayjob.meta.is_deleting:
            draft.actions.append(Delete(Resource.RAYJOB, rayjob.meta.name, rayjob.meta.uid))
    # Where KubeRay is gone its finalizer would hold RayJob and cluster for ever; the cluster's pods
    # would never be deleted.
    for cluster in view.rayclusters:
        if not cluster.meta.is_deleting:
            draft.actions.append(Delete(Resource.RAYCLUSTER, cluster.meta.name, cluster.meta.uid))
    pods, _ = part_pods(view)
    for pod in pods:
        if not pod.meta.is_deleting:
            draft.actions.append(Delete(Resource.POD, pod.meta.name, pod.meta.uid))
    if pods:
        names = ", ".join(pod.meta.name for pod in pods[:3])
        wait = describe_wait(pods, view.nodes)
        report_deletion(draft, f"Still there: {names}{f'; it {wait}' if wait else ''}.")
    else:
        draft.actions.append(SetFinalizer(is_set=False))
        report_deletion(draft, "")
    draft.wake(draft.now + draft.limits.settle)
    return draft.finish()
