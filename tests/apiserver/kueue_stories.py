"""Stories of pipelines in Kueue's queues: actions of administrators, and the expected results.

`record_kueue.py` plays each story with a real Kueue, an operator process, and the stand-in for
KubeRay. A story waits for the expected results; a missing result ends the recording. The module
must not depend on the format of recordings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kueue_objects import (
    ONE_RUN,
    SMALL,
    render_cluster_queue,
    render_flavor,
    render_local_queue,
    render_multikueue,
    render_pipeline,
    render_priority,
)
from kueue_play import LOCAL, PIPELINES, Play
from kueue_process import HOOKS
from kueue_stage import NAMESPACE, PODS, WATCHED

Json = dict[str, Any]


def wait_for_room(play: Play) -> None:
    """Give quota to one of two pipelines. The other pipeline waits, and both succeed."""
    play.prepare()
    play.make(render_pipeline("first"))
    play.wait_for_phase("first-1", "Running")
    play.make(render_pipeline("second"))
    play.wait_for_phase("second-1", "Queued")
    play.stage.go_on(3.0)
    assert play.read("second-1")["phase"] == "Queued"
    play.succeed("first")
    play.wait_for_phase("second-1", "Running")
    play.succeed("second")
    assert play.count_failures("second") == 0


def preempt(play: Play) -> None:
    """Preempt a running run by a run of higher priority. The first run resumes afterwards."""
    classes = (render_priority("low", 1), render_priority("high", 100))
    play.prepare(*classes, preemption={"withinClusterQueue": "LowerPriority"})
    play.make(render_pipeline("low", priority="low"))
    play.wait_for_phase("low-1", "Running")
    play.make(render_pipeline("high", priority="high"))
    play.wait_for_eviction("low-1", "Preempted")
    play.wait_for_end("low-1", "Interrupted", "Preempted to accommodate a workload")
    play.wait_for_phase("high-1", "Running")
    play.wait_for_phase("low-2", "Queued")
    assert play.count_failures("low") == 0
    play.succeed("high")
    play.wait_for_phase("low-2", "Running")
    play.succeed("low", 2)


def preempt_early(play: Play) -> None:
    """Preempt a run whose pods are starting. The same attempt waits again."""
    classes = (render_priority("low", 1), render_priority("high", 100))
    play.prepare(*classes, preemption={"withinClusterQueue": "LowerPriority"})
    play.stage.unready.add("low-1")
    play.make(render_pipeline("low", priority="low"))
    play.wait_for_phase("low-1", "Starting")
    play.stage.wait_for("pods", lambda: play.stage.list_all(PODS))
    play.make(render_pipeline("high", priority="high"))
    play.wait_for_eviction("low-1", "Preempted")
    play.wait_for_phase("low-1", "Queued")
    play.wait_for_phase("high-1", "Running")
    play.stage.unready.clear()
    play.succeed("high")
    play.wait_for_phase("low-1", "Running")
    assert play.count_failures("low") == 0
    play.succeed("low")


def stop_queue(play: Play) -> None:
    """Hold a queue, which admits and evicts nothing, and then drain the queue."""
    play.prepare(cpu="100")
    play.make(render_pipeline("runs"))
    play.wait_for_phase("runs-1", "Running")
    play.change("ClusterQueue", "all", stopPolicy="Hold")
    play.make(render_pipeline("waits"))
    play.wait_for_phase("waits-1", "Queued")
    play.stage.go_on(3.0)
    assert play.read("runs-1")["phase"] == "Running"
    play.change("ClusterQueue", "all", stopPolicy="HoldAndDrain")
    play.wait_for_end("runs-1", "Interrupted")
    play.wait_for_phase("runs-2", "Queued")
    play.change("ClusterQueue", "all", stopPolicy="None")
    play.wait_for_phase("runs-2", "Running")
    play.wait_for_phase("waits-1", "Running")
    play.change("LocalQueue", "team-a", stopPolicy="HoldAndDrain")
    play.wait_for_end("waits-1", "Interrupted")
    play.wait_for_end("runs-2", "Interrupted")
    play.change("LocalQueue", "team-a", stopPolicy="None")
    play.wait_for_phase("waits-2", "Running")
    assert play.count_failures("waits") == 0


def lose_queue(play: Play) -> None:
    """Start without a LocalQueue, create the queue, and delete it while a run has quota."""
    play.make(render_flavor(), render_cluster_queue(cpu="100"))
    play.make(render_pipeline("early"))
    play.wait_for_phase("early-1", "Queued")
    play.stage.go_on(3.0)
    play.make(render_local_queue())
    play.wait_for_phase("early-1", "Running")
    play.stage.client.ask("DELETE", f"{LOCAL}/team-a")
    play.make(render_pipeline("late"))
    play.wait_for_phase("late-1", "Queued")
    play.stage.go_on(5.0)
    assert play.read("early-1")["phase"] == "Running"
    play.make(render_local_queue())
    play.wait_for_phase("late-1", "Running")
    play.succeed("early")


def use_flavor(play: Play) -> None:
    """Use a flavor whose labels and taints Kueue adds to the pod templates and removes again."""
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    toleration = {"key": "spot", "operator": "Exists", "effect": "NoSchedule"}
    play.make(
        render_flavor(
            "tainted",
            nodeLabels={"pool": "spot"},
            nodeTaints=[taint],
            tolerations=[toleration, {**taint, "operator": "Equal"}],
        ),
        render_cluster_queue(flavor="tainted"),
        render_local_queue(),
    )
    play.make(render_pipeline("placed"))
    play.wait_for_phase("placed-1", "Running")
    play.change("ClusterQueue", "all", stopPolicy="HoldAndDrain")
    play.wait_for_end("placed-1", "Interrupted", "The ClusterQueue is stopped")
    play.wait_for_phase("placed-2", "Queued")
    play.change("ClusterQueue", "all", stopPolicy="None")
    play.wait_for_phase("placed-2", "Running")
    play.succeed("placed", 2)


def borrow(play: Play) -> None:
    """Let a run borrow quota from another queue of the cohort, which then reclaims the quota."""
    reclaim = {"reclaimWithinCohort": "Any", "withinClusterQueue": "Never"}
    play.make(
        render_flavor(),
        render_cluster_queue("a", ONE_RUN, cohortName="both", preemption=reclaim),
        render_cluster_queue("b", ONE_RUN, cohortName="both", preemption=reclaim),
        render_local_queue("team-a", "a"),
        render_local_queue("team-b", "b"),
    )
    play.make(render_pipeline("owner"))
    play.wait_for_phase("owner-1", "Running")
    play.make(render_pipeline("borrower"))
    play.wait_for_phase("borrower-1", "Running")
    play.make(render_pipeline("other", queue="team-b"))
    play.stage.wait_for("an interruption", lambda: find_interrupted(play))
    (lost,) = find_interrupted(play)
    play.wait_for_phase("other-1", "Running")
    play.wait_for_phase(f"{lost}-2", "Queued")
    play.succeed("other")
    play.wait_for_phase(f"{lost}-2", "Running")


def find_interrupted(play: Play) -> list[str]:
    """Return the pipelines whose first attempts a queue has evicted."""
    names = ("owner", "borrower")
    return [name for name in names if play.read(f"{name}-1").get("cause") == "Interrupted"]


def wait_for_pods(play: Play) -> None:
    """Keep pods unready, so that Kueue evicts the workload, retries it, and gives up."""
    play.prepare(cpu="100")
    play.stage.unready.add("slow-1")
    play.make(render_pipeline("slow"))
    play.wait_for_eviction("slow-1", "PodsReadyTimeout")
    play.wait_for_phase("slow-1", "Queued")
    play.wait_for_phase("slow-1", "Starting")
    play.wait_for_eviction("slow-1", "Deactivated")
    play.wait_for_phase("slow-1", "Queued")
    play.stage.go_on(5.0)
    assert play.count_failures("slow") == 0


def deactivate(play: Play) -> None:
    """Deactivate the workload of a running run, and delete the workload of the next run."""
    play.prepare(cpu="100")
    play.make(render_pipeline("taken"))
    play.wait_for_phase("taken-1", "Running")
    set_active(play, "taken-1", is_active=False)
    play.wait_for_end("taken-1", "Interrupted", "The workload is deactivated")
    play.wait_for_phase("taken-2", "Running")
    path = f"{WATCHED['Workload']}/{play.stage.find_workload('taken-2')['metadata']['name']}"
    play.stage.client.ask("DELETE", path)
    play.wait_for_end("taken-2", "Interrupted", "Workload is deleted")
    play.wait_for_phase("taken-3", "Running")


def set_active(play: Play, rayjob: str, *, is_active: bool) -> None:
    """Set whether the workload of a RayJob is active."""
    name = play.stage.find_workload(rayjob)["metadata"]["name"]
    play.stage.patch(f"{WATCHED['Workload']}/{name}", {"spec": {"active": is_active}})


def be_away(play: Play) -> None:
    """Stop the operator while Kueue evicts a run and admits the same RayJob again."""
    play.prepare(cpu="100")
    play.make(render_pipeline("seen"))
    play.wait_for_phase("seen-1", "Running")
    play.operator.kill()
    play.change("ClusterQueue", "all", stopPolicy="HoldAndDrain")
    play.wait_for_word("seen-1", "jobDeploymentStatus", "Suspended")
    play.change("ClusterQueue", "all", stopPolicy="None")
    play.wait_for_word("seen-1", "jobStatus", "RUNNING")
    play.operator.start()
    play.wait_for_end("seen-1", "Interrupted")
    play.wait_for_phase("seen-2", "Running")


def hold_back(play: Play) -> None:
    """Suspend one waiting pipeline and delete another."""
    play.prepare(cpu="1")
    play.make(render_pipeline("paused"), render_pipeline("dropped"))
    play.wait_for_phase("paused-1", "Queued")
    play.wait_for_phase("dropped-1", "Queued")
    play.change("CurationPipeline", "paused", suspend=True)
    play.stage.wait_for("no RayJob", lambda: not play.stage.find_rayjob("paused-1"))
    play.stage.client.ask("DELETE", f"{PIPELINES}/dropped")
    play.stage.wait_for("no pipeline", lambda: not play.stage.find(f"{PIPELINES}/dropped"))
    play.change(
        "ClusterQueue", "all", resourceGroups=render_cluster_queue()["spec"]["resourceGroups"]
    )
    play.change("CurationPipeline", "paused", suspend=False)
    play.wait_for_phase("paused-2", "Running")
    play.succeed("paused", 2)


ELASTIC = "kueue.x-k8s.io/elastic-job"


def render_elastic(name: str) -> Json:
    """Render a queued pipeline whose cluster may grow."""
    group = {"name": "cpu", "minReplicas": 1, "maxReplicas": 3, "resources": SMALL}
    # The autoscaler's token needs a service account, which KubeRay would create.
    body = render_pipeline(name, workerGroups=[group], serviceAccountName="default")
    body["metadata"]["annotations"] = {ELASTIC: "true"}
    return body


def grow(play: Play) -> None:
    """Grow a cluster in a queue, as its autoscaler requests, and then drain the queue."""
    play.prepare(cpu="100")
    play.make(render_elastic("grows"))
    play.wait_for_phase("grows-1", "Running")
    for size in (2, 3):
        set_size(play, size)
        wait_for_workers(play, size)
    assert play.read("grows-1")["phase"] == "Running"
    play.change("ClusterQueue", "all", stopPolicy="HoldAndDrain")
    play.wait_for_end("grows-1", "Interrupted", "The ClusterQueue is stopped")
    play.change("ClusterQueue", "all", stopPolicy="None")
    play.wait_for_phase("grows-2", "Running")
    play.succeed("grows", 2)


def grow_as_far_as_there_is_room(play: Play) -> None:
    """Grow a cluster beyond its quota. The worker waits, and a drain does not stop the cluster."""
    play.prepare(cpu="4")
    play.make(render_elastic("stays"))
    play.wait_for_phase("stays-1", "Running")
    set_size(play, 2)
    wait_for_workers(play, 2)
    set_size(play, 3)
    play.stage.go_on(8.0)
    assert play.read("stays-1")["phase"] == "Running"
    assert len(list_workers(play, "Running")) == 2
    play.change("ClusterQueue", "all", stopPolicy="HoldAndDrain")
    play.stage.go_on(8.0)
    assert play.read("stays-1")["phase"] == "Running"
    play.change("ClusterQueue", "all", stopPolicy="None")
    play.succeed("stays")


def wait_for_workers(play: Play, count: int) -> None:
    """Wait until this number of workers is running."""
    play.stage.wait_for(f"{count} workers", lambda: len(list_workers(play, "Running")) == count)


def list_workers(play: Play, phase: str) -> list[str]:
    """Return the names of the workers in a phase."""
    pods = play.stage.list_all(PODS)
    names = [pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] == phase]
    return [name for name in names if "-worker-" in name]


def set_size(play: Play, size: int) -> None:
    """Request workers as an autoscaler does."""
    path = f"apis/ray.io/v1/namespaces/{NAMESPACE}/rayclusters"
    (cluster,) = play.stage.list_all(path)
    groups = cluster["spec"]["workerGroupSpecs"]
    groups[0]["replicas"] = size
    name = cluster["metadata"]["name"]
    play.stage.patch(f"{path}/{name}", {"spec": {"workerGroupSpecs": groups}})


def grow_in_vain(play: Play) -> None:
    """Grow a cluster while the feature gate of Kueue is off, so the RayJob is rejected."""
    play.prepare()
    play.make(render_elastic("refused"))
    play.wait_for_pipeline("refused", "ObjectRefused")


def refuse(play: Play) -> None:
    """Submit RayJobs that Kueue rejects: too many groups, and a reserved group name."""
    play.prepare(cpu="100")
    group = {"minReplicas": 1, "resources": SMALL}
    groups = [{**group, "name": f"cpu-{number}"} for number in range(8)]
    play.make(render_pipeline("many", workerGroups=groups))
    play.wait_for_pipeline("many", "ObjectRefused")
    play.make(render_pipeline("seven", workerGroups=groups[:7]))
    play.wait_for_pipeline("seven", "QueueUnfit")
    play.make(render_pipeline("named", workerGroups=[{**group, "name": "submitter"}]))
    play.wait_for_pipeline("named", "QueueUnfit")
    play.make(render_pipeline("six", workerGroups=groups[:6]))
    play.wait_for_phase("six-1", "Running")
    assert not play.stage.find_workload("seven-1")
    assert not play.stage.find_workload("named-1")


def be_without_kueue(play: Play) -> None:
    """Stop Kueue's webhook for a while. The RayJob is rejected at first and created later."""
    play.prepare(cpu="100")
    path = f"{HOOKS}/mutatingwebhookconfigurations/kueue-mutating-webhook-configuration"
    hooks = play.stage.find(path)["webhooks"]
    ports = [hook["clientConfig"]["service"]["port"] for hook in hooks]
    set_ports(play, path, hooks, [1] * len(hooks))
    play.make(render_pipeline("early"))
    play.wait_for_pipeline("early", "failed calling webhook")
    play.stage.go_on(5.0)
    set_ports(play, path, hooks, ports)
    play.wait_for_phase("early-1", "Running")
    assert play.count_failures("early") == 0
    play.succeed("early")


def set_ports(play: Play, path: str, hooks: list[Json], ports: list[int]) -> None:
    """Make the API server call the webhooks on other ports."""
    for hook, port in zip(hooks, ports, strict=True):
        hook["clientConfig"]["service"]["port"] = port
    play.stage.patch(path, {"webhooks": hooks})


def lack_a_class(play: Play) -> None:
    """Use a missing priority class. Kueue creates no Workload until the class exists."""
    play.prepare(cpu="100")
    play.make(render_pipeline("unranked", priority="absent"))
    play.wait_for_phase("unranked-1", "Queued")
    play.stage.go_on(4.0)
    assert not play.stage.find_workload("unranked-1")
    play.make(render_priority("absent", 5))
    play.wait_for_phase("unranked-1", "Running")
    play.succeed("unranked")


def stop_growing(play: Play) -> None:
    """Evict an elastic cluster whose pods are starting, and admit the cluster again."""
    play.prepare(cpu="100")
    play.stage.unready.add("grows-1")
    play.make(render_elastic("grows"))
    play.wait_for_phase("grows-1", "Starting")
    play.stage.wait_for("pods", lambda: play.stage.list_all(PODS))
    play.change("ClusterQueue", "all", stopPolicy="HoldAndDrain")
    play.wait_for_phase("grows-1", "Queued")
    play.wait_for_word("grows-1", "jobDeploymentStatus", "Suspended")
    play.stage.unready.clear()
    play.change("ClusterQueue", "all", stopPolicy="None")
    play.stage.go_on(20.0)


def manage_all(play: Play) -> None:
    """Configure Kueue to manage jobs without a queue name, so a pipeline without a queue waits."""
    play.prepare()
    play.make(render_pipeline("plain", queue=""))
    play.wait_for_phase("plain-1", "Queued")
    checked = render_pipeline("checked", queue="")
    checked["spec"]["preflight"] = True
    play.make(checked)
    play.wait_for_pipeline("checked", "Preflight")
    play.stage.go_on(15.0)


def send_elsewhere(play: Play) -> None:
    """Use a queue whose runs MultiKueue sends to other clusters."""
    checks = {"admissionChecks": [{"name": "far"}]}
    play.make(*render_multikueue("far"), render_flavor())
    play.make(render_cluster_queue(admissionChecksStrategy=checks), render_local_queue())
    play.stage.go_on(2.0)
    play.make(render_pipeline("sent"))
    play.wait_for_pipeline("sent", "QueueUnfit")


@dataclass(frozen=True)
class Story:
    """A story, and the setup of Kueue for the story."""

    tell: Callable[[Play], None]
    kueue: Mapping[str, Any] = field(default_factory=dict)


ELASTIC_GATE = {"ElasticJobsViaWorkloadSlices": True}
READY = {
    "timeout": "6s",
    "requeuingStrategy": {"backoffLimitCount": 1, "backoffBaseSeconds": 2, "timestamp": "Eviction"},
}
STORIES: Mapping[str, Story] = {
    "waits": Story(wait_for_room),
    "preempted": Story(preempt),
    "preempted-early": Story(preempt_early),
    "stopped": Story(stop_queue),
    "no-queue": Story(lose_queue),
    "flavor": Story(use_flavor),
    "borrowed": Story(borrow),
    "pods-ready": Story(wait_for_pods, {"waitForPodsReady": READY}),
    "deactivated": Story(deactivate),
    "operator-away": Story(be_away),
    "held-back": Story(hold_back),
    "elastic": Story(grow, {"featureGates": ELASTIC_GATE}),
    "elastic-full": Story(grow_as_far_as_there_is_room, {"featureGates": ELASTIC_GATE}),
    "elastic-off": Story(grow_in_vain),
    "elastic-early": Story(stop_growing, {"featureGates": ELASTIC_GATE}),
    "refused": Story(refuse),
    "no-class": Story(lack_a_class),
    "kueue-away": Story(be_without_kueue),
    "all-managed": Story(manage_all, {"manageJobsWithoutQueueName": True}),
    "multikueue": Story(send_elsewhere),
}
