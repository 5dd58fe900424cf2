"""`strandline-operator uninstall` removes the operator's finalizer from pipelines, or waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from fake_api import Call, FakeApi
from strandline_api.names import FINALIZER, PIPELINE_UID_LABEL
from strandline_api.outcome.exit_codes import ExitCode
from strandline_operator.cluster.errors import Conflict, Forbidden
from strandline_operator.commands.uninstall.held_pipelines import describe_held, read_held
from strandline_operator.commands.uninstall.removal import Shell, UninstallError, prepare_removal
from strandline_operator.commands.uninstall.request import (
    HeldTreatment,
    UninstallRequest,
    read_request,
)
from strandline_operator.model.plan import ObjectKind, Resource

Json = dict[str, Any]
OTHER = "example.com/audit"
OPERATOR = ("strandline", "strandline")


@dataclass
class Scene:
    """A cluster, a clock that sleeping advances, and the output lines.

    Attributes:
        on_sleep: callback for changes of the cluster during a sleep.
    """

    api: FakeApi = field(default_factory=FakeApi)
    lines: list[str] = field(default_factory=list)
    time: float = 0.0
    on_sleep: Callable[[], object] = lambda: None

    def add_pipeline(self, name: str, *finalizers: str, namespace: str = "corpora") -> str:
        body: Json = {"metadata": {"name": name, "finalizers": list(finalizers)}, "spec": {}}
        made = self.api.store.create(Resource.PIPELINE, namespace, body)
        return str(made["metadata"]["uid"])

    def add_rayjob(self, name: str, uid: str) -> None:
        body: Json = {"metadata": {"name": name, "labels": {PIPELINE_UID_LABEL: uid}}}
        self.api.store.create(Resource.RAYJOB, "corpora", body)

    def add_operator(self, *phases: str) -> None:
        namespace, name = OPERATOR
        body: Json = {"metadata": {"name": name}, "spec": {"replicas": 1}}
        self.api.store.create(Resource.DEPLOYMENT, namespace, body)
        for number, phase in enumerate(phases):
            pod: Json = {"metadata": {"name": f"{name}-{number}", "labels": {"app": "operator"}}}
            self.api.store.create(Resource.POD, namespace, pod)
            self.api.store.put_status(Resource.POD, namespace, f"{name}-{number}", {"phase": phase})

    def find_replicas(self) -> int:
        body = self.api.store.get(Resource.DEPLOYMENT, *OPERATOR)
        assert body is not None
        return int(body["spec"]["replicas"])

    def find_finalizers(self, name: str, namespace: str = "corpora") -> list[str]:
        body = self.api.store.get(Resource.PIPELINE, namespace, name)
        assert body is not None
        return list(body["metadata"]["finalizers"])

    def run(self, treatment: HeldTreatment, **changes: Any) -> ExitCode:
        request = UninstallRequest(treatment, **changes)

        async def sleep(seconds: float) -> None:
            self.time += seconds
            self.on_sleep()

        shell = Shell(self.api, lambda: self.time, sleep, self.lines.append)
        return asyncio.run(prepare_removal(request, shell))


def test_release_removes_only_the_operators_finalizer_and_names_runs() -> None:
    scene = Scene()
    scene.add_rayjob("web-3", scene.add_pipeline("web", OTHER, FINALIZER))
    scene.add_pipeline("code", FINALIZER)
    scene.add_pipeline("done")
    assert scene.run(HeldTreatment.RELEASE) is ExitCode.COMPLETE
    assert scene.find_finalizers("web") == [OTHER]
    assert scene.find_finalizers("code") == []
    assert scene.lines == [
        "released corpora/code: no attempt is running",
        "released corpora/web: RayJob web-3 continues until its driver ends, and no attempt "
        "follows it",
    ]


def test_releasing_a_terminating_pipeline_deletes_it() -> None:
    scene = Scene()
    scene.add_pipeline("web", FINALIZER)
    scene.api.store.delete(Resource.PIPELINE, "corpora", "web")
    scene.run(HeldTreatment.RELEASE)
    assert scene.api.store.get(Resource.PIPELINE, "corpora", "web") is None
    assert scene.lines == ["released corpora/web, which was being deleted"]


def test_the_operator_is_stopped_before_finalizers_are_removed() -> None:
    scene = Scene()
    scene.add_pipeline("web", FINALIZER)
    scene.add_operator("Running", "Failed")
    scene.on_sleep = lambda: scene.api.store.objects.pop(
        (Resource.POD, "strandline", "strandline-0"), None
    )
    scene.run(HeldTreatment.RELEASE, deployment=OPERATOR, selector="app=operator")
    writes = [(call.resource, call.name) for call in scene.api.writes]
    assert writes == [(Resource.DEPLOYMENT, "strandline"), (Resource.PIPELINE, "web")]
    assert scene.find_replicas() == 0


def test_an_operator_that_does_not_stop_is_restarted_without_a_release() -> None:
    scene = Scene()
    scene.add_pipeline("web", FINALIZER)
    scene.add_operator("Running")
    with pytest.raises(UninstallError, match="did not stop within 30 s"):
        scene.run(HeldTreatment.RELEASE, deployment=OPERATOR, selector="app=operator", timeout=30)
    assert scene.find_finalizers("web") == [FINALIZER]
    assert scene.find_replicas() == 1


def test_a_missing_operator_is_no_obstacle() -> None:
    scene = Scene()
    scene.add_pipeline("web", FINALIZER)
    scene.run(HeldTreatment.RELEASE, deployment=OPERATOR, selector="app=operator")
    assert scene.find_finalizers("web") == []


def test_a_failed_release_restarts_the_operator() -> None:
    scene = Scene()
    scene.add_pipeline("web", FINALIZER)
    scene.add_operator()

    def refuse(call: Call) -> None:
        if call.resource is Resource.PIPELINE and call.is_write:
            raise Forbidden(403, "Forbidden", "may not patch")

    scene.api.before.append(refuse)
    with pytest.raises(Forbidden):
        scene.run(HeldTreatment.RELEASE, deployment=OPERATOR)
    assert scene.find_replicas() == 1


def test_a_pipeline_edited_meanwhile_is_released() -> None:
    scene = Scene()
    scene.add_pipeline("web", FINALIZER)

    def edit_once(call: Call) -> None:
        if call.resource is Resource.PIPELINE and call.is_write:
            scene.api.before.clear()
            patch: Json = {"metadata": {"finalizers": [FINALIZER, OTHER]}}
            scene.api.store.patch(Resource.PIPELINE, "corpora", "web", patch)

    scene.api.before.append(edit_once)
    scene.run(HeldTreatment.RELEASE)
    assert scene.find_finalizers("web") == [OTHER]


def test_permanent_conflicts_end_with_a_message() -> None:
    scene = Scene()
    scene.add_pipeline("web", FINALIZER)

    def conflict(call: Call) -> None:
        if call.is_write:
            raise Conflict(409, "Conflict", "the object has been modified")

    scene.api.before.append(conflict)
    with pytest.raises(UninstallError, match="corpora/web is being changed constantly"):
        scene.run(HeldTreatment.RELEASE)


def test_only_the_named_namespaces_are_read() -> None:
    scene = Scene()
    scene.add_pipeline("web", FINALIZER)
    scene.add_pipeline("web", FINALIZER, namespace="others")
    scene.run(HeldTreatment.RELEASE, namespaces=("corpora",))
    assert scene.find_finalizers("web") == []
    assert scene.find_finalizers("web", "others") == [FINALIZER]


def test_namespaces_where_the_operator_continues_are_not_changed() -> None:
    scene = Scene()
    scene.add_pipeline("web", FINALIZER)
    scene.add_pipeline("web", FINALIZER, namespace="others")
    scene.run(HeldTreatment.RELEASE, excluded=("others",))
    assert scene.find_finalizers("web") == []
    assert scene.find_finalizers("web", "others") == [FINALIZER]
    assert scene.run(HeldTreatment.REFUSE, excluded=("others",)) is ExitCode.COMPLETE


@pytest.mark.parametrize("treatment", HeldTreatment)
def test_a_refusing_namespace_does_not_block_the_removal(treatment: HeldTreatment) -> None:
    scene = Scene()
    scene.add_pipeline("web", FINALIZER)
    list_all = scene.api.list_all

    async def list_allowed(
        resource: ObjectKind, namespace: str | None, selector: str = ""
    ) -> list[Json]:
        if namespace == "gone" and resource is Resource.PIPELINE:
            raise Forbidden(403, "Forbidden", "no rights in gone")
        return await list_all(resource, namespace, selector)

    scene.api.list_all = list_allowed  # type: ignore[method-assign]
    scene.on_sleep = lambda: scene.api.store.remove(Resource.PIPELINE, "corpora", "web")
    if treatment is HeldTreatment.REFUSE:
        with pytest.raises(UninstallError, match="corpora/web"):
            scene.run(treatment, namespaces=("gone", "corpora"))
    else:
        assert scene.run(treatment, namespaces=("gone", "corpora")) == ExitCode.COMPLETE
    told = "namespace gone can't be read, and is skipped: no rights in gone"
    assert scene.lines.count(told) == 1


@pytest.mark.parametrize("treatment", list(HeldTreatment))
def test_without_the_definitions_nothing_is_done(treatment: HeldTreatment) -> None:
    scene = Scene()
    scene.api.unserved.add(Resource.PIPELINE)
    assert scene.run(treatment) is ExitCode.COMPLETE


def test_a_cluster_without_kuberay_is_released_all_the_same() -> None:
    scene = Scene()
    scene.add_pipeline("web", FINALIZER)
    scene.api.unserved.add(Resource.RAYJOB)
    scene.run(HeldTreatment.RELEASE)
    assert scene.find_finalizers("web") == []


def test_refuse_names_running_attempts_and_changes_nothing() -> None:
    scene = Scene()
    scene.add_pipeline("web", FINALIZER)
    scene.add_pipeline("done")
    with pytest.raises(
        UninstallError, match=r"^1 pipeline has an attempt .*: corpora/web; suspend"
    ):
        scene.run(HeldTreatment.REFUSE)
    assert scene.api.writes == []


def test_wait_ends_when_no_pipeline_is_held_and_reports_each_change_once() -> None:
    scene = Scene()
    scene.add_pipeline("code", FINALIZER)
    scene.add_pipeline("web", FINALIZER)

    def finish() -> None:
        if scene.time in {4.0, 10.0}:
            name = "code" if scene.time < 5 else "web"
            patch: Json = {"metadata": {"finalizers": []}}
            scene.api.store.patch(Resource.PIPELINE, "corpora", name, patch)

    scene.on_sleep = finish
    assert scene.run(HeldTreatment.WAIT) is ExitCode.COMPLETE
    assert scene.lines == [
        "waiting: 2 pipelines have an attempt under way or due: corpora/code, corpora/web",
        "waiting: 1 pipeline has an attempt under way or due: corpora/web",
        "no pipeline has an attempt under way or due",
    ]


def test_an_overdue_wait_fails_and_names_the_remaining_pipelines() -> None:
    scene = Scene()
    scene.add_pipeline("web", FINALIZER)
    with pytest.raises(UninstallError, match="corpora/web; they did not end within 60 s"):
        scene.run(HeldTreatment.WAIT, timeout=60)


@pytest.mark.parametrize(
    "body",
    [None, {}, {"metadata": None}, {"metadata": {"finalizers": "x"}}, {"metadata": {"name": "a"}}],
)
def test_odd_objects_are_not_held(body: Json | None) -> None:
    assert read_held(body) is None


def test_many_pipelines_are_counted_and_some_are_named() -> None:
    bodies = [
        {"metadata": {"namespace": "a", "name": f"p{number}", "finalizers": [FINALIZER]}}
        for number in range(12)
    ]
    text = describe_held(filter(None, map(read_held, bodies)))
    assert text.startswith("12 pipelines have")
    assert text.endswith("a/p9 and 2 more")


def test_flags_are_read() -> None:
    flags = ["--pipelines", "wait", "--namespaces", "a, b,", "--deployment", "s/op"]
    request = read_request([*flags, "--selector", "app=op", "--timeout", "90s"])
    assert request == UninstallRequest(HeldTreatment.WAIT, ("a", "b"), ("s", "op"), "app=op", 90.0)
    request = read_request(["--pipelines", "release", "--except-namespaces", "a,b"])
    assert request == UninstallRequest(HeldTreatment.RELEASE, excluded=("a", "b"))


@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--pipelines", "keep"],
        ["--pipelines", "wait", "--deployment", "x"],
        ["--pipelines", "wait", "--timeout", "soon"],
    ],
)
def test_bad_flags_end_with_64_and_one_sentence(
    flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        read_request(flags)
    assert ended.value.code == ExitCode.BAD_SPEC
    assert len(capsys.readouterr().err.splitlines()) == 1
