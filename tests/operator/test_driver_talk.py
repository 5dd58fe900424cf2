"""Drivers are polled at intervals, and the last report is kept until a status contains it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from fake_api import Call, FakeApi
from operator_bodies import NAMESPACE, Body, make_attempt, make_pipeline, make_pod, make_rayjob
from strandline_api.objects.attempt import AttemptOutcome
from strandline_api.outcome.driver_outcome import DriverOutcome, format_outcome_line
from strandline_api.outcome.reader_token import derive_release_token, derive_token
from strandline_api.status.enums import AttemptPhase
from strandline_operator.cluster.driver import pick_drivers_lines
from strandline_operator.cluster.errors import ApiError, Invalid, NotFound, Unavailable
from strandline_operator.model.limits import Limits
from strandline_operator.model.objects import Pod, RayJob
from strandline_operator.model.plan import Resource
from strandline_operator.model.view import AttemptObject, DriverView
from strandline_operator.reconcile.caches.own_kinds import read_attempt
from strandline_operator.reconcile.drivers.dialogue import DriverTalk
from strandline_operator.reconcile.drivers.logs import END_INTERVAL, MOST_MISSES

URL = "http://10.0.0.7:8780"
PROGRESS = {
    "event": "progress",
    "sources": {"listed": 10, "total": 10, "finished": 4, "failed": 2, "skipped": 1},
    "rate": 0.5,
    "secondsLeft": None,
}
OUTCOME = DriverOutcome(exit_code=3, message="2 failed")


class Scene:
    """A pipeline with one attempt and a reachable driver."""

    def __init__(self, ip: str = "10.0.0.7") -> None:
        self.api = FakeApi()
        self.talk = DriverTalk(Limits(pull_interval=15.0))
        self.pipeline: Body = make_pipeline(self.api.store)
        self.uid = str(self.pipeline["metadata"]["uid"])
        body = make_attempt(self.api.store, self.pipeline)
        make_rayjob(self.api.store, self.pipeline, body, {"jobStatus": "RUNNING"})
        make_pod(self.api.store, self.pipeline, "head", "head", ip=ip)
        make_pod(self.api.store, self.pipeline, "submit", "submitter", ip="10.0.0.8")
        attempt = read_attempt(body)
        assert attempt is not None
        self.attempt: AttemptObject = attempt

    def end(self, **status: str) -> None:
        self.api.store.put_status(Resource.RAYJOB, NAMESPACE, "corpus-1", status)

    def end_submitter(self) -> None:
        end = {"terminated": {"exitCode": 1, "finishedAt": "2026-11-21T10:00:00Z"}}
        status = {"containerStatuses": [{"name": "ray-job-submitter", "state": end}]}
        self.api.store.put_status(Resource.POD, NAMESPACE, "submit", {"phase": "Failed", **status})

    def listen(self, now: float) -> tuple[DriverView, float | None]:
        store = self.api.store
        rayjobs = [RayJob.read(body) for body in store.list(Resource.RAYJOB)]
        pods = tuple(Pod.read(body) for body in store.list(Resource.POD))
        listening = self.talk.listen(
            self.api, self.uid, self.attempt, rayjobs[0] if rayjobs else None, pods, now
        )
        return asyncio.run(listening)

    @property
    def asked(self) -> list[str]:
        """Return the requests since the last read of this property."""
        names = [call.name for call in self.api.calls if call.verb in {"pull", "log"}]
        self.api.calls.clear()
        return [name.removeprefix(URL) for name in names]


def test_a_driver_is_polled_at_most_once_per_interval() -> None:
    scene = Scene()
    scene.api.drivers[f"{URL}/progress"] = PROGRESS
    scene.api.drivers[f"{URL}/outcome"] = None
    view, ask_at = scene.listen(100.0)

    assert scene.asked == ["/progress", "/outcome"]
    assert view.progress is not None
    assert (view.progress.text, view.progress.time) == ("5/10", 100.0)
    assert (view.progress.rate_per_second, view.progress.seconds_left) == (0.5, None)
    assert (view.attempt, view.outcome, ask_at) == ("corpus-1", None, 115.0)

    again, ask_at = scene.listen(114.0)
    assert (again, ask_at, scene.asked) == (view, 115.0, [])
    scene.listen(115.0)
    assert scene.asked == ["/progress", "/outcome"]


@pytest.mark.parametrize(
    ("named", "known"),
    [
        ("logs/20251125T071100.123Z.log", "logs/20251125T071100.123Z.log"),
        ("../../etc/passwd", ""),
        ("logs/../20251125T071100.123Z.log", ""),
        ("logs/20251125T071100.123Z.log\n", ""),
        (7, ""),
    ],
)
def test_only_a_valid_log_name_is_kept(named: object, known: str) -> None:
    scene = Scene()
    scene.api.drivers[f"{URL}/progress"] = {**PROGRESS, "logFile": named}
    view, _ = scene.listen(100.0)
    assert view.progress is not None
    assert view.log_file == known


def test_the_last_report_is_kept_when_the_driver_is_unreachable() -> None:
    scene = Scene()
    scene.api.drivers[f"{URL}/outcome"] = OUTCOME.to_json()
    view, _ = scene.listen(100.0)
    assert view.outcome == OUTCOME

    scene.api.drivers.clear()
    again, ask_at = scene.listen(200.0)
    assert again.outcome == OUTCOME
    assert ask_at is None
    assert scene.asked == ["/progress", "/outcome"]


@pytest.mark.parametrize(
    "answer",
    [7, "text", [], {}, {"exitCode": "many"}, {"sources": 7}, {"sources": {"finished": -1}}],
)
def test_an_invalid_answer_counts_as_silence(answer: object) -> None:
    scene = Scene()
    scene.api.drivers |= {f"{URL}/progress": answer, f"{URL}/outcome": answer}
    view, _ = scene.listen(100.0)
    assert view.outcome is None
    assert view.progress is None or view.progress.finished == 0


def test_a_driver_with_an_ipv6_address_is_polled() -> None:
    scene = Scene(ip="fd00::7")
    scene.api.drivers["http://[fd00::7]:8780/progress"] = PROGRESS
    view, _ = scene.listen(100.0)
    assert view.progress is not None


def test_a_driver_is_polled_at_its_pods_port() -> None:
    """The attempt keeps its port, because the operator's setting may have changed since."""
    scene = Scene()
    named = {"dashboard": 8265, "strandline": 8790}
    ports = [{"name": name, "containerPort": port} for name, port in named.items()]
    other = {"name": "agent", "ports": [{"name": "metrics", "containerPort": 9000}]}
    containers = [other, {"name": "ray-head", "ports": ports}]
    scene.api.store.patch(Resource.POD, NAMESPACE, "head", {"spec": {"containers": containers}})
    scene.api.drivers["http://10.0.0.7:8790/progress"] = PROGRESS
    view, _ = scene.listen(100.0)
    assert view.progress is not None


def test_a_held_driver_is_polled_no_more_often_than_a_running_one() -> None:
    """A held attempt may last half an hour, and its ended driver reports nothing new."""
    scene = Scene()
    scene.end(jobStatus="FAILED")
    assert scene.listen(100.0)[1] == 100.0 + END_INTERVAL
    held = scene.attempt.status.model_copy(update={"end_time": 90.0, "phase": AttemptPhase.HELD})
    scene.attempt = replace(scene.attempt, status=held)
    assert scene.listen(110.0)[1] == 100.0 + 15.0


@pytest.mark.parametrize(
    "status", [{"jobStatus": "FAILED"}, {"jobDeploymentStatus": "Failed", "jobStatus": "RUNNING"}]
)
def test_at_the_end_the_log_is_read_too_and_polls_are_more_frequent(status: dict[str, str]) -> None:
    scene = Scene()
    scene.end(**status)
    lines = [f"line {number}" for number in range(30)]
    scene.api.logs[NAMESPACE, "submit"] = "\n".join(lines)
    view, ask_at = scene.listen(100.0)

    assert scene.asked == ["/progress", "/outcome", "submit"]
    assert view.log_tail == tuple(lines[-10:])
    assert (view.log_outcome, ask_at) == (None, 100.0 + END_INTERVAL)

    scene.api.logs[NAMESPACE, "submit"] += f"\n\n{format_outcome_line(OUTCOME)}\nlast\n"
    view, ask_at = scene.listen(102.0)
    assert view.log_outcome == OUTCOME
    assert view.log_tail == (*lines[-9:], "last")


def test_color_codes_of_a_log_are_removed() -> None:
    scene = Scene()
    scene.end(jobStatus="FAILED")
    coloured = "INFO cli.py:42 -- \x1b[37mJob\x1b[39m: \x1b[1m\x1b[31mfailed [1m]\x1b[0m\x1b[22m"
    scene.api.logs[NAMESPACE, "submit"] = coloured
    view, _ = scene.listen(100.0)
    assert view.log_tail == ("INFO cli.py:42 -- Job: failed [1m]",)


DASHES = "-" * 21
SUBMITTED = f"""Waiting for Ray Dashboard GCS to become healthy at http://127.0.0.1:8265 ...
2026-11-21 10:24:29,413\tINFO cli.py:42 -- Job submission server address: http://10.0.0.9:8265
2026-11-21 10:24:29,502\tSUCC cli.py:66 -- {DASHES}
2026-11-21 10:24:29,502\tSUCC cli.py:67 -- Job 'rj' submitted successfully
2026-11-21 10:24:29,462\tINFO job_manager.py:581 -- Runtime env is setting up.
"""
SAID = """10 s: 8 of 60 sources finished
2026-11-21 10:24:30,001\tINFO worker.py:1841 -- Connecting to existing Ray cluster
2 sources failed
"""
ENDED = f"""2026-11-21 10:24:36,600\tINFO sdk.py:520 -- WebSocket closed for job rj
2026-11-21 10:24:36,628\tERR cli.py:74 -- \x1b[31m{DASHES}\x1b[39m
2026-11-21 10:24:36,628\tERR cli.py:75 -- \x1b[31mJob 'rj' failed\x1b[39m
2026-11-21 10:24:36,633\tERR cli.py:76 -- \x1b[31m{DASHES}\x1b[39m
2026-11-21 10:24:36,633\tINFO cli.py:89 -- Status message: Job entrypoint command failed with exit \
code 3, last available logs (truncated to 20,000 chars):
"""
DIED = "2026-11-21 10:24:36,633\tINFO cli.py:89 -- Status message: Job supervisor actor died: gone"


@pytest.mark.parametrize(
    ("log", "lines"),
    [
        (SUBMITTED + SAID, SAID),
        (SUBMITTED + SAID + ENDED + SAID, SAID),
        (ENDED + SAID, SAID),
        (SUBMITTED + DIED, DIED),
        (SUBMITTED, SUBMITTED),
        (SAID.replace("worker.py", "mycli.py"), SAID.replace("worker.py", "mycli.py")),
    ],
    ids=["running", "ended", "cut off", "died", "never began", "own words"],
)
def test_the_log_tail_has_the_drivers_lines_not_the_submitters(log: str, lines: str) -> None:
    assert pick_drivers_lines(log) == lines.splitlines()


def test_without_a_final_repetition_the_earlier_lines_count() -> None:
    picked = pick_drivers_lines(SUBMITTED + SAID + ENDED + format_outcome_line(OUTCOME))
    assert picked[:-1] == SAID.splitlines()


def test_each_request_has_the_attempts_token() -> None:
    scene = Scene()
    scene.listen(100.0)
    token = derive_token(scene.attempt.meta.uid)
    assert scene.api.tokens == {f"{URL}/progress": token, f"{URL}/outcome": token}


def test_only_the_operators_key_releases_a_driver() -> None:
    scene = Scene()
    scene.talk.limits = replace(scene.talk.limits, token_key=b"key")
    scene.listen(100.0)
    release = derive_release_token(b"key", scene.attempt.meta.uid)
    assert scene.api.releases[f"{URL}/outcome"] == release
    assert release != derive_release_token(b"other", scene.attempt.meta.uid)


def test_an_ended_submitter_is_read_while_the_rayjob_is_running() -> None:
    scene = Scene()
    scene.end_submitter()
    scene.api.logs[NAMESPACE, "submit"] = format_outcome_line(OUTCOME)
    view, ask_at = scene.listen(100.0)
    assert view.log_outcome == OUTCOME
    assert ask_at == 100.0 + END_INTERVAL


def test_after_the_last_report_the_driver_is_not_polled() -> None:
    scene = Scene()
    scene.end(jobStatus="FAILED")
    scene.api.logs[NAMESPACE, "submit"] = "said"
    scene.api.drivers[f"{URL}/outcome"] = OUTCOME.to_json()
    view, _ = scene.listen(100.0)
    assert (view.outcome, view.log_tail) == (OUTCOME, ("said",))
    assert scene.asked
    assert scene.listen(200.0) == (view, None)

    status = scene.attempt.status.model_copy(
        update={"outcome": AttemptOutcome(exit_code=3), "log_tail": ("said",)}
    )
    scene.attempt = replace(scene.attempt, status=status)
    scene.talk.forget(scene.uid)
    assert scene.listen(300.0) == (DriverView("corpus-1"), None)
    assert scene.asked == []


def test_without_pods_no_request_is_made() -> None:
    scene = Scene()
    for name in ("head", "submit"):
        scene.api.store.remove(Resource.POD, NAMESPACE, name)
    scene.end(jobStatus="FAILED")
    assert scene.listen(100.0) == (DriverView("corpus-1"), None)
    assert scene.asked == []


def test_an_unreadable_log_is_no_failure() -> None:
    scene = Scene()
    scene.end(jobStatus="FAILED")
    view, ask_at = scene.listen(100.0)
    assert (view.log_tail, view.log_outcome, ask_at) == ((), None, 102.0)
    assert scene.asked == ["/progress", "/outcome", "submit"]


def refuse_logs(error: ApiError) -> Callable[[Call], None]:
    def hook(call: Call) -> None:
        if call.verb == "log":
            raise error

    return hook


NO_NODE = NotFound(404, "NotFound", 'nodes "node-1" not found')
NO_LOG = Invalid(400, "BadRequest", "container is waiting to start")
NO_KUBELET = Unavailable(500, "InternalError", "dial tcp: connection refused")


@pytest.mark.parametrize(("error", "times"), [(NO_NODE, 1), (NO_LOG, 1), (NO_KUBELET, MOST_MISSES)])
def test_a_missing_log_is_requested_once_and_an_unreachable_kubelet_twice(
    error: ApiError, times: int
) -> None:
    scene = Scene()
    scene.end(jobStatus="FAILED")
    scene.api.before.append(refuse_logs(error))
    for turn in range(5):
        scene.listen(100.0 + turn * END_INTERVAL)
    asked = scene.asked
    assert (asked.count("submit"), asked.count("/outcome")) == (times, 5)


def test_a_missing_log_is_requested_again_after_a_pod_change() -> None:
    scene = Scene()
    scene.end(jobStatus="FAILED")
    scene.listen(100.0)
    scene.end_submitter()
    scene.api.logs[NAMESPACE, "submit"] = "said"
    view, _ = scene.listen(102.0)
    assert view.log_tail == ("said",)


def test_a_log_whose_writer_has_ended_is_read_once() -> None:
    scene = Scene()
    scene.end(jobStatus="FAILED")
    scene.api.logs[NAMESPACE, "submit"] = "said"
    scene.listen(100.0)
    scene.end_submitter()
    for turn in range(1, 5):
        scene.listen(100.0 + turn * END_INTERVAL)
    assert scene.asked.count("submit") == 2
    scene.api.store.delete(Resource.POD, NAMESPACE, "submit")
    scene.listen(112.0)
    assert scene.asked.count("submit") == 0


def test_an_empty_log_is_read_again_until_it_has_text() -> None:
    scene = Scene()
    scene.end(jobStatus="FAILED")
    scene.end_submitter()
    scene.api.logs[NAMESPACE, "submit"] = ""
    scene.listen(100.0)
    scene.api.logs[NAMESPACE, "submit"] = "said"
    for turn in range(1, 4):
        view, _ = scene.listen(100.0 + turn * END_INTERVAL)
    assert view.log_tail == ("said",)
    assert scene.asked.count("submit") == 2


def test_an_unchanged_log_is_read_less_and_less_often() -> None:
    scene = Scene()
    scene.end(jobStatus="FAILED")
    scene.api.logs[NAMESPACE, "submit"] = "said"
    times = list[float]()
    for turn in range(40):
        scene.listen(now := 100.0 + turn)
        times += [now] * scene.asked.count("submit")
    assert times == [100.0, 102.0, 106.0, 114.0, 130.0]
    scene.api.logs[NAMESPACE, "submit"] = "more"
    assert scene.listen(145.0)[0].log_tail == ("more",)
    assert scene.listen(147.0)[0].log_tail == ("more",)
    assert scene.asked.count("submit") == 2


def test_a_log_is_read_at_once_when_its_pod_is_being_deleted() -> None:
    scene = Scene()
    scene.end(jobStatus="FAILED")
    scene.api.logs[NAMESPACE, "submit"] = "said"
    for now in (100.0, 102.0, 106.0):
        scene.listen(now)
    scene.api.logs[NAMESPACE, "submit"] = "more"
    assert scene.listen(108.0)[0].log_tail == ("said",)
    scene.api.store.patient.add(Resource.POD)
    scene.api.store.delete(Resource.POD, NAMESPACE, "submit")
    assert scene.listen(110.0)[0].log_tail == ("more",)


def test_a_log_is_read_after_a_temporary_failure() -> None:
    scene = Scene()
    scene.end(jobStatus="FAILED")
    scene.api.before.append(refuse_logs(NO_KUBELET))
    scene.listen(100.0)
    scene.api.before.clear()
    for turn in range(1, 4):
        scene.api.logs[NAMESPACE, "submit"] = f"line {turn}"
        view, _ = scene.listen(100.0 + turn * END_INTERVAL)
        assert view.log_tail == (f"line {turn}",)


def test_the_log_of_a_submitting_container_in_the_head_is_read() -> None:
    scene = Scene()
    scene.api.store.remove(Resource.POD, NAMESPACE, "submit")
    sidecar = [{"name": "ray-job-submitter", "state": {"running": {}}}]
    status = {"phase": "Running", "podIP": "10.0.0.7", "containerStatuses": sidecar}
    scene.api.store.put_status(Resource.POD, NAMESPACE, "head", status)
    scene.end(jobStatus="FAILED")
    scene.api.logs[NAMESPACE, "head"] = "said"
    view, _ = scene.listen(100.0)
    assert view.log_tail == ("said",)
    assert scene.asked == ["/progress", "/outcome", "head"]


def test_a_new_attempt_starts_without_earlier_reports() -> None:
    scene = Scene()
    scene.api.drivers[f"{URL}/outcome"] = OUTCOME.to_json()
    scene.listen(100.0)
    body = make_attempt(scene.api.store, scene.pipeline, 2)
    attempt = read_attempt(body)
    assert attempt is not None
    scene.attempt = attempt
    view, _ = scene.listen(101.0)
    assert view == DriverView("corpus-2")
