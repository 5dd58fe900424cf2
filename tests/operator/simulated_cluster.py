"""A cluster as plain data that executes the operator's plans. Tests act as KubeRay and the pods.

Actions of real controllers happen only when a test calls a method, so the test decides the order.
`pass_once` runs one pass of the operator over the cluster.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Self, cast

from parsed_bodies import ParsedBodies
from simulated_pipeline import PIPELINE, Body, KilledError, LineageListener, list_templates
from strandline_api.names import FINALIZER, name_claim, name_preflight
from strandline_api.notation.times import format_time
from strandline_api.objects.attempt import AttemptSpec, AttemptStatus
from strandline_api.outcome.driver_outcome import DriverOutcome
from strandline_api.spec.namespace_defaults import SpecDefaults
from strandline_api.spec.policy import RetryPolicy
from strandline_api.status.defaults import DefaultsRecord
from strandline_api.status.pipeline_status import PipelineStatus, Progress
from strandline_operator.decide.obstacles.namesakes import may_launch
from strandline_operator.decide.obstacles.predecessors import needs_others
from strandline_operator.decide.obstacles.preflight import needs_preflight
from strandline_operator.decide.pipeline import decide
from strandline_operator.model.code import CodeFiles
from strandline_operator.model.cpu_rules import CpuRules
from strandline_operator.model.limits import Limits
from strandline_operator.model.nodes.capacity import NodeSize
from strandline_operator.model.nodes.marks import NodeMarks, NodeView
from strandline_operator.model.notices import Notice
from strandline_operator.model.objects import Meta, Pod, RayClusterState, RayJob, VolumeClaim
from strandline_operator.model.plan import (
    Count,
    Create,
    Delete,
    EventDraft,
    Grow,
    PassPlan,
    Resource,
    SetFinalizer,
)
from strandline_operator.model.preflight import PreflightJob
from strandline_operator.model.view import (
    AttemptObject,
    DriverView,
    PipelineView,
    Refusal,
    Silence,
    Turn,
    View,
)
from strandline_operator.reconcile.caches.own_kinds import cut_manifest, read_spec
from strandline_operator.render.defaults import fill_in


@dataclass
class SimulatedCluster:
    """One pipeline in one namespace."""

    time: float = 1_000_000.0
    pipeline: Body = field(default_factory=lambda: copy.deepcopy(PIPELINE))
    status: PipelineStatus = field(default_factory=PipelineStatus)
    has_status: bool = False
    attempts: dict[str, tuple[Body, AttemptStatus]] = field(default_factory=dict)
    objects: dict[tuple[str, str], Body] = field(default_factory=dict)
    gone_pods: list[Body] = field(default_factory=list)
    events: list[EventDraft] = field(default_factory=list)
    counts: list[Count] = field(default_factory=list)
    audit: list[str] = field(default_factory=list)
    refusals: tuple[Refusal, ...] = ()
    refused: dict[str, Refusal] = field(default_factory=dict)
    progress: Progress | None = None
    log_file: str = ""
    redo_reason: str = ""
    outcome: DriverOutcome | None = None
    silence: Silence = field(default_factory=Silence)
    has_kuberay: bool = True
    turn: Turn = field(default_factory=Turn)
    nodes: dict[str, NodeView] = field(default_factory=dict)
    marks: dict[str, NodeMarks] = field(default_factory=dict)
    seen: dict[str, Pod] = field(default_factory=dict)
    sizes: tuple[NodeSize, ...] | None = None
    namesakes: tuple[str, ...] = ()
    notices: list[Body] = field(default_factory=list)
    unread: tuple[Refusal, ...] = ()
    unread_job: str = ""
    job_pods: list[Body] = field(default_factory=list)
    code: CodeFiles | None = None
    others: dict[str, SimulatedCluster] = field(default_factory=dict)
    policy: RetryPolicy | None = None
    defaults: SpecDefaults = field(default_factory=SpecDefaults)
    defaults_problem: str = ""
    defaults_digest: str = ""
    defaults_before: DefaultsRecord | None = None
    limits: Limits = field(default_factory=Limits)
    lineage: LineageListener = field(default_factory=LineageListener)
    cpu_rules: CpuRules = field(default_factory=CpuRules)
    most_running: int = 0
    calls: int = 0
    cut_at: int | None = None
    cuts: int = 0
    known: list[PassPlan] = field(default_factory=list)
    plans: list[PassPlan] = field(default_factory=list)
    _parsed: ParsedBodies = field(default_factory=ParsedBodies)
    _uids: Any = field(default_factory=lambda: count(1))

    @classmethod
    def running(cls) -> Self:
        """Return a pipeline whose first attempt is running."""
        cluster = cls()
        cluster.launch()
        cluster.settle()
        return cluster

    def launch(self, deployment: str = "") -> None:
        """Start the first attempt's pods. KubeRay reports the deployment state, if given."""
        self.settle()
        self.bind_claim()
        self.start_rayjob()
        if deployment:
            self.end_rayjob(deployment, "")

    @property
    def spec(self) -> Body:
        spec: Body = self.pipeline["spec"]
        return spec

    def edit(self, **fields: Any) -> None:
        """Edit the spec as a user does."""
        self.spec.update(fields)
        self.pipeline["metadata"]["generation"] += 1

    def annotate(self, name: str, value: str) -> None:
        self.pipeline["metadata"].setdefault("annotations", {})[f"strandline.dev/{name}"] = value

    def view(self) -> View:
        """Return the view of a pass."""
        return View(
            pipeline=self._view_pipeline(),
            attempts=tuple(self._view_attempts()),
            rayjobs=tuple(RayJob.read(rayjob) for rayjob in self.list_of(Resource.RAYJOB)),
            rayclusters=tuple(
                RayClusterState.read(raycluster) for raycluster in self.list_of(Resource.RAYCLUSTER)
            ),
            pods=tuple(map(self._follow, self.list_of(Resource.POD))),
            gone_pods=tuple(Pod.read(pod, is_gone=True) for pod in self.gone_pods),
            policy=self.policy or self._read_policy(),
            claim=self._read_claim(
                self._storage("ledger") or name_claim(self.pipeline["metadata"]["name"])
            ),
            output=self._read_claim(self._name_output()),
            driver=self._view_driver(),
            has_kuberay=self.has_kuberay,
            turn=self.turn,
            refusals=self.refusals,
            unread=self.unread,
            nodes=self.nodes,
            marks=self._mark_pods(),
            code=self._read_code(),
            sizes=self.sizes,
            namesakes=self.namesakes,
            notices=tuple(map(Notice.read, self.notices)),
            others=self._read_others(),
            defaults=self.defaults,
            defaults_problem=self.defaults_problem,
            defaults_digest=self.defaults_digest,
            defaults_before=self.defaults_before,
            preflight=self._read_preflight(),
            cpu_rules=self.cpu_rules,
            lineage=self.lineage.states,
        )

    def _follow(self, body: Body) -> Pod:
        """Read a pod as a watch does, with the pod's previous state."""
        pod = Pod.read(body)
        pod = self.seen[pod.meta.uid] = pod.follow(self.seen.get(pod.meta.uid))
        return pod

    def _mark_pods(self) -> dict[str, NodeMarks]:
        """Return the node marks of pods, by uid of the pod."""
        pods = map(Pod.read, (*self.list_of(Resource.POD), *self.gone_pods))
        return {pod.meta.uid: self.marks[pod.node] for pod in pods if pod.node in self.marks}

    def _read_preflight(self) -> PreflightJob | None:
        """Return the preflight Job that a pass reads, or None if the Job is missing or unneeded."""
        views, name = self._view_attempts(), name_preflight(self.pipeline["metadata"]["name"])
        job = self.objects.get((Resource.JOB, name))
        newest, by_default = views[-1] if views else None, self.limits.preflight
        if not needs_preflight(self._view_pipeline(), newest, by_default=by_default):
            return None
        if self.unread_job:
            return PreflightJob(Meta(name, "team", ""), unread=self.unread_job)
        return None if job is None else PreflightJob.read(job, self.job_pods)

    def _read_others(self) -> dict[str, PipelineView | None] | None:
        """Return the other pipelines that a pass reads, including those that the test added."""
        pipeline, views = self._view_pipeline(), self._view_attempts()
        if pipeline.spec is None or not needs_others(pipeline, views[-1] if views else None):
            return None
        names = {*pipeline.spec.predecessors, *self.others}
        known = {name: other._view_pipeline() for name, other in self.others.items()}
        return {name: known.get(name) for name in names}

    def _read_code(self) -> CodeFiles | None:
        """Return the code's ConfigMap if the pass may make an attempt, or None."""
        views = self._view_attempts()
        is_read = may_launch(self._view_pipeline(), views[-1] if views else None)
        return self.code if is_read else None

    def _name_output(self) -> str | None:
        spec = fill_in(self._view_pipeline(), self.defaults)
        return None if spec is None else spec.storage.output.claim_name

    def _storage(self, part: str) -> str | None:
        spec = self.pipeline["spec"]
        if not isinstance(spec, dict):  # a test may break the whole spec
            return None
        return cast("str | None", spec.get("storage", {}).get(part, {}).get("claimName"))

    def _read_claim(self, name: str | None) -> VolumeClaim | None:
        body = self.objects.get((Resource.CLAIM, name or ""))
        return None if body is None else VolumeClaim.read(body)

    def pass_once(self) -> PassPlan:
        """Run one pass. If `cut_at` is set, kill the operator before the call with this number."""
        plan = self._decide()
        self.plans.append(plan)
        self.refusals = ()
        try:
            self._enact(plan)
        except KilledError:
            self.cuts, self.lineage.states = self.cuts + 1, {}
            return plan
        self.events += plan.events
        self.counts += plan.counts
        self.audit += plan.audit
        return plan

    def _decide(self) -> PassPlan:
        """Return the next plan. Before the first kill, reuse the plans of the run without kills."""
        number = len(self.plans)
        if not self.cuts and number < len(self.known):
            return self.known[number]
        return decide(self.view(), self.time, self.limits, 0.0)

    def settle(self, passes: int = 30) -> None:
        """Run passes until nothing changes, without advancing the time."""
        for _ in range(passes):
            cuts = self.cuts
            plan = self.pass_once()
            is_idle = plan.pipeline is None and not plan.attempts and not plan.actions
            if is_idle or (self.refusals and plan.pipeline is None and cuts == self.cuts):
                return
        raise AssertionError("the operator does not come to rest")

    def advance(self, seconds: float) -> None:
        """Advance the time, then run passes until nothing changes."""
        self.time += seconds
        self.settle()

    def list_of(self, resource: Resource) -> list[Body]:
        return [body for (kind, _), body in sorted(self.objects.items()) if kind == resource]

    def ask_in_vain(self, seconds: float) -> None:
        """Advance the time while the driver answers no request."""
        self.progress = None
        end = self.time + seconds
        while self.time < end:
            pause = min(self.limits.pull_interval, end - self.time)
            self.silence = self.silence.prolong(pause, 60.0)
            self.advance(pause)

    def restart(self, outage: float) -> None:
        """Restart the operator after an outage. Only the server's state remains."""
        self.time += outage
        self.progress, self.outcome, self.silence = None, None, Silence()
        self.lineage.states = {}

    # Actions of other controllers.

    def share_claim(self, name: str) -> None:
        """Create a claim that every pod can mount."""
        self.objects[Resource.CLAIM, name] = {
            "metadata": {"name": name},
            "spec": {"accessModes": ["ReadWriteMany"]},
            "status": {"phase": "Bound"},
        }

    def bind_claim(self) -> None:
        for claim in self.list_of(Resource.CLAIM):
            claim["status"] = {"phase": "Bound"}

    def start_rayjob(self) -> str:
        """Make the cluster and the pods as KubeRay does, and return the attempt's number."""
        (rayjob,) = [one for one in self.list_of(Resource.RAYJOB) if "status" not in one]
        name = rayjob["metadata"]["name"]
        self.add_cluster(rayjob, f"{name}-abcde", name)
        rayjob["status"] = {
            "jobDeploymentStatus": "Running",
            "jobStatus": "RUNNING",
            "rayClusterName": f"{name}-abcde",
        }
        self._watch_overlap()
        return str(rayjob["metadata"]["labels"]["strandline.dev/attempt"])

    def add_cluster(self, rayjob: Body, name: str, prefix: str) -> None:
        """Make a RayCluster and its pods, whose names begin with `prefix`, as KubeRay does."""
        self._put(Resource.RAYCLUSTER, name, rayjob["metadata"]["labels"], {})
        for ending, template in list_templates(rayjob):
            self.add_pod(f"{prefix}-{ending}", template["metadata"]["labels"])

    def add_pod(self, name: str, labels: dict[str, str], **status: Any) -> None:
        self._put(Resource.POD, name, labels, {"phase": "Running", **status})

    def end_rayjob(self, deployment: str = "Complete", job: str = "SUCCEEDED", **more: Any) -> None:
        for rayjob in self.list_of(Resource.RAYJOB):
            status = {"jobDeploymentStatus": deployment, "jobStatus": job, **more}
            rayjob["status"] = {**rayjob.get("status", {}), **status}

    def set_pod(self, ending: str, **status: Any) -> None:
        """Change the status of the pods whose names have this ending."""
        for pod in self.list_of(Resource.POD):
            if pod["metadata"]["name"].endswith(ending):
                pod["status"] = {**pod["status"], **status}

    def fail_replicas(self, message: str, reason: str = "FailedCreateHeadPod") -> None:
        """Report in the RayCluster's status that KubeRay may not make a pod."""
        since = format_time(self.time)
        told = {"type": "ReplicaFailure", "status": "True", "reason": reason}
        for cluster in self.list_of(Resource.RAYCLUSTER):
            failure = {**told, "message": f"{reason}\n{message}", "lastTransitionTime": since}
            cluster["status"] = {"conditions": [failure]}

    def warn(self, kind: str, name: str, reason: str, message: str) -> None:
        """Record a controller's warning event about an object."""
        uid = self.objects.get((Resource.POD, name), {}).get("metadata", {}).get("uid", "")
        about = {"kind": kind, "name": name, "uid": uid}
        told = {"reason": reason, "message": message, "lastTimestamp": format_time(self.time)}
        self.notices.append({"type": "Warning", "involvedObject": about, **told})

    def lose_pod(self, ending: str) -> None:
        """Delete a pod from outside the operator."""
        for pod in self.list_of(Resource.POD):
            if pod["metadata"]["name"].endswith(ending):
                self.gone_pods.append(self.objects.pop((Resource.POD, pod["metadata"]["name"])))

    def sweep(self) -> None:
        """Finish pending deletions, as KubeRay and the kubelet do."""
        deleting = {
            rayjob["metadata"]["labels"]["strandline.dev/attempt"]
            for rayjob in self.list_of(Resource.RAYJOB)
            if "deletionTimestamp" in rayjob["metadata"]
        }
        for key, body in list(self.objects.items()):
            number = body["metadata"].get("labels", {}).get("strandline.dev/attempt")
            is_of_job = key[0] in {Resource.RAYJOB, Resource.RAYCLUSTER, Resource.POD}
            if is_of_job and (number in deleting or "deletionTimestamp" in body["metadata"]):
                if key[0] == Resource.POD:
                    self.gone_pods.append(body)
                del self.objects[key]

    def fail_attempt(self, message: str = "Job entrypoint command failed with exit code 1") -> None:
        """Fail the running attempt's driver, and tear the attempt down."""
        self.end_rayjob("Failed", "FAILED", reason="AppFailed", message=message)
        self.finish_teardown()

    def finish(self, code: int = 0, **more: Any) -> None:
        """End the driver with an outcome, as KubeRay reports it, and tear the attempt down."""
        self.outcome = DriverOutcome(exit_code=code, **more)
        self.end_rayjob(*(("Failed", "FAILED") if code else ("Complete", "SUCCEEDED")))
        self.settle()
        self.finish_teardown()
        self.outcome = None

    def run_next(self) -> None:
        """Advance to the next attempt's time, and run the attempt."""
        self.time = max(self.time, self.status.next_attempt_time or self.time)
        self.settle()
        self.start_rayjob()
        self.settle()

    def finish_teardown(self) -> None:
        """Advance the time until the newest attempt is frozen."""
        name = max(self.attempts, key=lambda each: self.attempts[each][0]["spec"]["number"])
        for seconds in (0.0, self.limits.settle + 0.5, self.limits.outcome, 1.0):
            self.advance(seconds)
            self.sweep()
            self.outcome = None
            self.settle()
            if self.attempts[name][1].is_frozen:
                return
        raise AssertionError(f"{name} is not frozen")

    def _view_pipeline(self) -> PipelineView:
        found = self._parsed.parse(self.pipeline, read_spec)
        return PipelineView(
            meta=Meta.read(self.pipeline),
            spec=found.spec,
            problems=found.problems,
            unknown=found.unknown,
            status=self.status,
            has_status=self.has_status,
            manifest=cut_manifest(self.pipeline),
        )

    def _view_attempts(self) -> list[AttemptObject]:
        views = [
            AttemptObject(
                Meta.read(body), self._parsed.parse(body["spec"], AttemptSpec.parse), status
            )
            for body, status in self.attempts.values()
        ]
        return sorted(views, key=lambda one: one.spec.number)

    def _view_driver(self) -> DriverView | None:
        views = self._view_attempts()
        is_heard = self.progress is not None or self.outcome is not None
        if not views or not (is_heard or self.silence.questions):
            return None
        name = views[-1].meta.name
        heard = DriverView(name, self.progress, self.outcome, silence=self.silence)
        return replace(heard, log_file=self.log_file, redo_reason=self.redo_reason)

    def _read_policy(self) -> RetryPolicy:
        return RetryPolicy.model_validate(self.spec.get("retry", {}))

    def _enact(self, plan: PassPlan) -> None:
        for name, status in plan.attempts.items():
            self._call()
            self.attempts[name] = (self.attempts[name][0], status)
        if plan.pipeline is not None:
            self._call()
            self.status, self.has_status = plan.pipeline, True
        for action in plan.actions:
            self._call()
            if isinstance(action, Create):
                self._create(action)
            elif isinstance(action, Delete):
                self._delete(action)
            elif isinstance(action, Grow):
                self._grow(action)
            else:
                self._set_finalizer(action)
        if plan.ends:
            self._call()
            self.lineage.take(plan.ends)

    def _call(self) -> None:
        self.calls += 1
        if self.calls == self.cut_at:
            raise KilledError

    def _create(self, action: Create) -> None:
        manifest = copy.deepcopy(action.manifest)
        name = manifest["metadata"]["name"]
        if self.refusals:
            return  # stop like the real enactment, because later objects depend on this object
        if action.resource in self.refused:
            self.refusals = (*self.refusals, self.refused[action.resource])
            return
        manifest["metadata"].setdefault("uid", f"uid-{next(self._uids)}")
        manifest["metadata"]["creationTimestamp"] = format_time(self.time)
        manifest["metadata"]["generation"] = 1
        if action.resource is Resource.ATTEMPT:
            self.attempts.setdefault(name, (manifest, AttemptStatus()))
        else:
            self.objects.setdefault((action.resource, name), manifest)

    def _delete(self, action: Delete) -> None:
        if action.resource is Resource.ATTEMPT:
            self.attempts.pop(action.name, None)
            return
        body = self.objects.get((action.resource, action.name))
        if body is not None and body["metadata"]["uid"] == action.uid:
            body["metadata"]["deletionTimestamp"] = format_time(self.time)

    def _grow(self, action: Grow) -> None:
        if "growth" in self.refused:
            self.refusals = (*self.refusals, self.refused["growth"])
            return
        claim = self.objects[Resource.CLAIM, action.name]
        assert claim["metadata"]["uid"] == action.uid
        claim["spec"]["resources"]["requests"]["storage"] = action.size

    def _set_finalizer(self, action: SetFinalizer) -> None:
        self.pipeline["metadata"]["finalizers"] = [FINALIZER] if action.is_set else []

    def _put(self, resource: Resource, name: str, labels: dict[str, str], status: Body) -> None:
        metadata = {"name": name, "uid": f"uid-{next(self._uids)}", "labels": dict(labels)}
        self.objects[(resource, name)] = {"metadata": metadata, "status": status}

    def _watch_overlap(self) -> None:
        numbers = {
            pod["metadata"]["labels"]["strandline.dev/attempt"]
            for pod in self.list_of(Resource.POD)
        }
        self.most_running = max(self.most_running, len(numbers))
