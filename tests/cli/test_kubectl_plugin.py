"""`kubectl strandline`: its calls of kubectl, its output, and the objects that it leaves."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest

from cli_project import Call
from cluster_objects import (
    end_pod,
    make_attempt_object,
    make_config,
    make_pipeline_object,
    make_pod,
)
from command_server import execute_command, start_command
from fake_kubectl import JOB, PIPELINE, FakeKubectl, read_command
from strandline.cli.commands.cluster.claims import USES, find_command
from strandline.cli.commands.cluster.plugin import plugin

ATTEMPT = "get curationattempts.strandline.dev corpus-1"
ROOT = Path(__file__).parents[2]


def test_a_command_runs_in_a_job_and_leaves_nothing(kubectl: FakeKubectl, ask: Call) -> None:
    result = ask("verify", "corpus", "--no-bytes", "--json")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "verified\n", "")
    assert read_command(kubectl) == [
        "strandline",
        "verify",
        "/etc/strandline/pipeline.yaml",
        "--volume",
        "/var/lib/strandline",
        "--no-bytes",
        "--json",
    ]
    assert kubectl.list_verbs() == ["create", "logs", "delete"]
    (deleted,) = (" ".join(call) for call in kubectl.calls if call[0] == "delete")
    assert deleted.startswith(f"delete job {JOB}")


@pytest.mark.parametrize(("code", "told"), [(65, "strandline: error: no such ledger"), (3, "")])
def test_exit_code_and_error_are_the_commands(
    kubectl: FakeKubectl, ask: Call, code: int, told: str
) -> None:
    kubectl.answer("get pods|job-name", {"items": [end_pod(JOB, code, told)]})
    result = ask("ledger", "stats", "corpus")
    assert (result.exit_code, result.stderr) == (code, f"{told}\n" if told else "")
    assert kubectl.list_verbs()[-1] == "delete"


def test_a_plan_uses_the_current_pipeline(kubectl: FakeKubectl, ask: Call) -> None:
    pipeline = make_pipeline_object(inputs=[{"pipeline": "pages", "output": "/pages/output"}])
    stages = [{"use": "gopher-quality", "with": {"minDocWords": 30}}]
    before = {"paths": [{"pipeline": "pages", "files": "**/*.parquet"}]}
    pipeline["spec"] |= {"onChange": "Redo", "stages": stages, "source": {"with": before}}
    kubectl.answer(PIPELINE, pipeline)
    assert ask("plan", "corpus", "--json").exit_code == 0
    words = read_command(kubectl)
    assert [*words[:5], words[5]] == [
        "strandline",
        "plan",
        "/etc/strandline/pipeline.yaml",
        "--volume",
        "/var/lib/strandline",
        "--json",
    ]
    settings = dict(word.split("=", 1) for word in words if word.startswith("spec."))
    assert ["source", "stages", "onChange"] == [name.removeprefix("spec.") for name in settings]
    assert stages == json.loads(settings["spec.stages"])
    found = json.loads(settings["spec.source"])
    assert {"with": {"paths": ["/pages/output/**/*.parquet"]}} == found


def test_a_plan_requires_the_place_of_its_inputs(kubectl: FakeKubectl, ask: Call) -> None:
    pipeline = make_pipeline_object()
    pipeline["spec"] |= {"source": {"with": {"paths": [{"pipeline": "pages"}]}}}
    kubectl.answer(PIPELINE, pipeline)
    result = ask("plan", "corpus")
    assert (result.exit_code, kubectl.list_verbs()) == (64, [])
    assert "uses information that only attempts have about pipeline 'pages'" in result.stderr


def test_arguments_are_passed_unchanged(kubectl: FakeKubectl, ask: Call) -> None:
    assert ask("quarantine", "release", "corpus", "--", "a b.txt", "--all").exit_code == 0
    assert read_command(kubectl)[-3:] == ["--", "a b.txt", "--all"]
    assert read_command(kubectl)[1:4] == ["ledger", "quarantine", "release"]
    assert kubectl.created[0]["metadata"]["generateName"] == "corpus-release-"


@pytest.mark.parametrize(
    "words", [("-n", "team", "verify", "corpus"), ("verify", "corpus", "-n", "team")]
)
def test_kubectls_options_are_passed_with_each_call(
    kubectl: FakeKubectl, ask: Call, words: tuple[str, ...]
) -> None:
    assert ask("--context", "far", *words, "--kubeconfig", "c.yaml").exit_code == 0
    for call in kubectl.calls:
        assert sorted(call[1:7:2]) == ["--context", "--kubeconfig", "--namespace"]
        assert sorted(call[2:8:2]) == ["c.yaml", "far", "team"]


def test_the_job_runs_on_the_node_of_a_run_with_the_claim(kubectl: FakeKubectl, ask: Call) -> None:
    head = make_pod("corpus-1-head", claim="corpus-ledger", role="head")
    kubectl.answer("get pods|status.phase", {"items": [head]})
    kubectl.answer("get curationattempts", make_attempt_object(1, phase="Running"))
    assert ask("ledger", "sources", "corpus", "--state", "failed").exit_code == 0
    assert "node-of-corpus-1-head" in json.dumps(kubectl.created)
    refused = ask("quarantine", "release", "corpus", "--all")
    assert refused.exit_code == 69
    assert re.fullmatch(
        r"strandline: error: attempt 1 of corpus is running and writes the ledger; wait .*\n",
        refused.stderr,
    )
    assert len(kubectl.created) == 1


def test_an_attempt_that_begins_meanwhile_is_reported(kubectl: FakeKubectl, ask: Call) -> None:
    kubectl.answer(PIPELINE, make_pipeline_object(attempt=2), after="logs")
    result = ask("verify", "corpus")
    assert (result.exit_code, result.stdout) == (69, "verified\n")
    assert "attempt 2 started in the meantime" in result.stderr


def test_a_head_that_begins_meanwhile_is_reported(kubectl: FakeKubectl, ask: Call) -> None:
    """The attempt existed before the command, but its driver started meanwhile."""
    kubectl.answer("get curationattempts", make_attempt_object(1, phase="Pending"))
    head = make_pod("corpus-1-head", claim="corpus-ledger", role="head")
    kubectl.answer("get pods|status.phase", {"items": [head]}, after="logs")
    result = ask("verify", "corpus")
    assert (result.exit_code, result.stdout) == (69, "verified\n")
    assert "attempt 1 started in the meantime" in result.stderr


def test_a_report_is_written_locally(kubectl: FakeKubectl, ask: Call, tmp_path: Path) -> None:
    kubectl.answer("logs", "<html>")
    assert ask("report", "corpus").exit_code == 0
    assert (tmp_path / "report.html").read_text() == "<html>"
    assert read_command(kubectl)[-2:] == ["--out", "-"]
    assert ask("report", "corpus", "--out", "-").stdout == "<html>"
    failing = ask("report", "corpus", "--out", "nowhere/page.html")
    assert (failing.exit_code, "can't be written" in failing.stderr) == (64, True)


def test_a_card_is_written_beside_the_outputs_by_default(kubectl: FakeKubectl, ask: Call) -> None:
    config = make_config(storage={"output": {"claimName": "shared"}})
    kubectl.answer("get configmap corpus-1", config)
    attempt = make_attempt_object(config=config)
    kubectl.answer("get curationattempts.strandline.dev corpus-1", attempt)
    assert ask("card", "corpus", "--license", "mit").exit_code == 0
    assert ask("card", "corpus", "--out", "-").exit_code == 0
    writable = [
        [
            mount["mountPath"]
            for mount in job["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
            if not mount.get("readOnly") and mount["name"] != "temporary"
        ]
        for job in kubectl.created
    ]
    assert writable == [["/var/lib/strandline-output"], []]


@pytest.mark.parametrize(
    ("words", "patch"),
    [
        (("retry", "corpus"), r'{"metadata": {"annotations": {"strandline.dev/retry": "20\S+Z"}}}'),
        (("suspend", "corpus"), r'{"spec": {"suspend": true}}'),
    ],
)
def test_requests_are_patches(
    kubectl: FakeKubectl, ask: Call, words: tuple[str, ...], patch: str
) -> None:
    result = ask(*words)
    assert (result.exit_code, result.stdout.startswith("corpus: ")) == (0, True)
    (call,) = (call for call in kubectl.calls if call[0] == "patch")
    assert call[1:5] == ["curationpipelines.strandline.dev", "corpus", "--type", "merge"]
    assert re.fullmatch(patch, call[-1])


@pytest.mark.parametrize(
    ("status", "suspended", "resumed"),
    [
        (
            {"phase": "Failed"},
            "suspended; nothing was running, because the run is Failed",
            "resumed; nothing starts, because the run is Failed",
        ),
        (
            {"phase": "Succeeded"},
            "suspended; nothing was running, because the run is Succeeded",
            "resumed; nothing starts, because the run is Succeeded",
        ),
        (
            {"phase": "Waiting", "nextAttemptTime": "2026-11-24T10:00:00Z"},
            "suspended; nothing was running, and the next attempt waits until you resume",
            "resumed; it continues where it stopped",
        ),
        (  # an edit that the operator has not observed may start a run
            {"phase": "Failed", "observedGeneration": 1},
            "suspended; nothing was running, and the next attempt waits until you resume",
            "resumed; it continues where it stopped",
        ),
    ],
)
def test_a_suspension_reports_whether_an_attempt_was_running(
    kubectl: FakeKubectl, ask: Call, status: dict[str, Any], suspended: str, resumed: str
) -> None:
    ended = make_attempt_object(phase="Failed", endTime="2026-11-24T10:00:00Z")
    kubectl.answer(ATTEMPT, ended)
    kubectl.answer(PIPELINE, make_pipeline_object(**status))
    assert ask("suspend", "corpus").stdout == f"corpus: {suspended}\n"
    kubectl.answer(PIPELINE, make_pipeline_object(suspend=True, **status))
    assert ask("suspend", "corpus").stdout == "corpus is already suspended\n"
    assert ask("resume", "corpus").stdout == f"corpus: {resumed}\n"


def test_a_suspension_names_the_attempt_that_it_ends(kubectl: FakeKubectl, ask: Call) -> None:
    kubectl.answer(ATTEMPT, make_attempt_object(phase="Running"))
    kubectl.answer(PIPELINE, make_pipeline_object(phase="Running"))
    assert ask("suspend", "corpus").stdout == (
        "corpus: suspended; attempt 1 saves its work and ends\n"
    )


def test_a_suspension_before_the_first_attempt(kubectl: FakeKubectl, ask: Call) -> None:
    kubectl.answer(PIPELINE, make_pipeline_object(phase="Pending", attempt=0))
    assert ask("suspend", "corpus").stdout == (
        "corpus: suspended; nothing was running, and the next attempt waits until you resume\n"
    )


def test_a_request_names_its_user(kubectl: FakeKubectl, ask: Call) -> None:
    """The operator copies the value to its event, to the status, and to the attempt's evidence."""
    review = {"status": {"userInfo": {"username": "alice@example.com"}}}
    kubectl.answer("auth whoami", review)
    kubectl.answer(PIPELINE, make_pipeline_object(phase="Failed"))
    assert ask("retry", "corpus").exit_code == 0
    running = make_attempt_object(1, phase="Running")
    kubectl.answer("get curationattempts.strandline.dev corpus-1", running)
    assert ask("cancel", "corpus", "--context", "far").exit_code == 0
    patches = [json.loads(call[-1]) for call in kubectl.calls if call[0] == "patch"]
    values = [value for patch in patches for value in patch["metadata"]["annotations"].values()]
    assert len(values) == 2
    for value in values:
        assert re.fullmatch(r"20\S+Z by alice@example\.com", value)


@pytest.mark.parametrize("answer", ["", "[]", {"status": {}}, {"status": {"userInfo": None}}])
def test_a_request_needs_no_name(kubectl: FakeKubectl, ask: Call, answer: object) -> None:
    kubectl.answer("auth whoami", answer)
    assert ask("retry", "corpus").exit_code == 0
    (call,) = (call for call in kubectl.calls if call[0] == "patch")
    assert re.search(r'/retry": "20\S+Z"', call[-1])


def test_unnecessary_requests_are_reported(kubectl: FakeKubectl, ask: Call) -> None:
    assert ask("resume", "corpus").stdout == "corpus is not suspended\n"
    assert ask("cancel", "corpus").stdout == "corpus has nothing to cancel: it is Succeeded\n"
    assert kubectl.list_verbs() == []


def test_waiting_ends_with_the_run(kubectl: FakeKubectl, ask: Call) -> None:
    assert ask("wait", "corpus", "--timeout", "0").exit_code == 1
    done = {"type": "Succeeded", "status": "True", "reason": "Completed"}
    document = make_pipeline_object(conditions=[done], state="run 'first' completed (3/3)")
    kubectl.answer(PIPELINE, document)
    result = ask("wait", "corpus")
    assert (result.exit_code, result.stdout) == (0, "corpus: run 'first' completed (3/3)\n")


def test_attempts_are_listed(kubectl: FakeKubectl, ask: Call) -> None:
    ended: dict[str, Any] = {
        "phase": "Failed",
        "cause": "OOMKilled",
        "startTime": "2026-11-24T10:00:00Z",
    }
    items = [make_attempt_object(2, phase="Running"), make_attempt_object(1, **ended)]
    kubectl.answer("get curationattempts.strandline.dev -l", {"items": items})
    lines = ask("attempts", "corpus").stdout.splitlines()
    assert lines[0].split() == [
        *("attempt", "run", "trigger", "started", "(UTC)", "phase", "finished", "cause", "message")
    ]
    assert lines[1].split() == [
        "1",
        "first",
        "Run",
        "2026-11-24",
        "10:00:00",
        "Failed",
        "OOMKilled",
    ]
    first, second = map(json.loads, ask("attempts", "corpus", "--json").stdout.splitlines())
    assert (first["cause"], second["phase"], second["started"]) == ("OOMKilled", "Running", None)
    kubectl.answer("get curationattempts.strandline.dev -l", {"items": []})
    assert ask("attempts", "corpus").stdout == "there is no attempt yet\n"


REFUSED: list[tuple[tuple[str, ...], int, str]] = [
    (("verify",), 64, "Missing argument 'NAME'; see `kubectl strandline verify --help`"),
    (("verify", "a/b"), 64, "Invalid value for 'NAME': 'a/b' is not a pipeline name"),
    (("verify", "corpus", "--nobytes"), 64, "No such option"),
    (("ledger", "sources", "corpus", "--state", "odd"), 64, "'odd' is not one of"),
    (("verify", "other"), 64, "kubectl: Error from server (NotFound)"),
    (("cp", "corpus", "x"), 64, "must be NAME:PATH, such as corpus:output"),
    (("cp", "corpus:../x", "x"), 64, "not a path in the folder of corpus"),
    (("wait", "corpus", "--timeout", "soon"), 64, "Invalid value for '--timeout'"),
    (("lgos", "corpus"), 64, "No such command 'lgos'"),
]


@pytest.mark.parametrize(("words", "code", "told"), REFUSED)
def test_bad_input_gets_a_clear_error(
    kubectl: FakeKubectl, ask: Call, words: tuple[str, ...], code: int, told: str
) -> None:
    result = ask(*words)
    assert result.exit_code == code
    assert result.stderr.startswith("strandline: error: ")
    assert told in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert kubectl.list_verbs() == []


@pytest.mark.parametrize(
    ("pattern", "answer", "code", "told"),
    [
        (PIPELINE, make_pipeline_object(attempt=0), 64, "has no attempt yet"),
        ("get configmap", {"data": {"pipeline.yaml": "{}"}}, 64, "another user has replaced it"),
        (
            "get pods|job-name",
            {
                "items": [
                    {"metadata": {"name": "a"}, "status": {"phase": "Failed", "reason": "Evicted"}}
                ]
            },
            1,
            "failed before its command ran: Evicted",
        ),
    ],
)
def test_commands_that_can_not_run_report_the_reason(
    kubectl: FakeKubectl, ask: Call, pattern: str, answer: object, code: int, told: str
) -> None:
    kubectl.answer(pattern, answer)
    result = ask("verify", "corpus")
    assert (result.exit_code, told in result.stderr) == (code, True), result.stderr


def test_a_pod_is_taken_from_no_config_map_but_the_operators(
    kubectl: FakeKubectl, ask: Call
) -> None:
    """Otherwise every writer of ConfigMaps could run a pod with the user's rights."""
    config = make_config()
    head = json.loads(config["data"]["head.json"]) | {"hostPID": True, "serviceAccountName": "root"}
    replaced = {**config, "data": {**config["data"], "head.json": json.dumps(head)}}
    kubectl.answer("get configmap corpus-1", replaced)
    result = ask("verify", "corpus")
    assert (result.exit_code, kubectl.created) == (64, [])
    assert "ConfigMap corpus-1 differs from the one that the operator wrote" in result.stderr


@pytest.mark.parametrize(
    ("is_noted", "told"),
    [(False, "retry once with a newer operator"), (True, "operator is older")],
)
def test_fields_missing_from_an_older_operator_are_reported(
    kubectl: FakeKubectl, ask: Call, is_noted: bool, told: str
) -> None:
    """The missing field is the owner of the ConfigMap or the head's pod template in it."""
    config = {"data": {"pipeline.yaml": "{}"}}
    attempt = make_attempt_object(config=config)
    if not is_noted:
        del attempt["status"]["config"]
    kubectl.answer("get configmap", config)
    kubectl.answer("get curationattempts.strandline.dev corpus-1", attempt)
    result = ask("verify", "corpus")
    assert (result.exit_code, kubectl.created) == (64, [])
    assert told in result.stderr


def test_a_truncated_log_is_an_error(kubectl: FakeKubectl, ask: Call) -> None:
    kubectl.answer("logs", "veri", code=1)
    result = ask("verify", "corpus")
    assert (result.exit_code, "may be incomplete" in result.stderr) == (1, True)
    assert kubectl.list_verbs()[-1] == "delete"


def test_a_missing_kubectl_is_reported(ask: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    result = ask("verify", "corpus")
    assert (result.exit_code, "kubectl is not on PATH" in result.stderr) == (1, True)


def test_kubectl_finds_the_plugin_by_its_name(kubectl: FakeKubectl) -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, function = scripts["kubectl-strandline"].partition(":")
    code = f"from {module} import {function}; {function}()"
    done = execute_command([sys.executable, "-c", code, "verify", "corpus"])
    assert (done.returncode, done.stdout, done.stderr) == (0, "verified\n", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_leaves_no_job(kubectl: FakeKubectl, number: int) -> None:
    kubectl.answer("logs", "veri", seconds=60)
    code = "from strandline.__main__ import main_on_cluster; main_on_cluster()"
    process = start_command(
        [sys.executable, "-c", code, "verify", "corpus"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.read(4) == "veri"
        process.send_signal(number)
        assert process.wait(timeout=60) == 130
    assert kubectl.list_verbs() == ["create", "logs", "delete"]


def test_a_job_without_a_pod_is_reported_with_advice(kubectl: FakeKubectl, ask: Call) -> None:
    kubectl.answer("get pods|job-name", {"items": []})
    result = ask("verify", "corpus", "--start-timeout", "1")
    assert (result.exit_code, f"kubectl events --for job/{JOB}" in result.stderr) == (1, True)
    assert kubectl.list_verbs() == ["create", "delete"]


def walk(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not isinstance(command, click.Group):
        return [path]
    context = click.Context(command)
    found = []
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        found += walk(inner, (*path, name))
    return found


@pytest.mark.parametrize("path", walk(plugin), ids=" ".join)
def test_help_shows_an_example_of_the_command_itself(path: tuple[str, ...], ask: Call) -> None:
    result = ask(*path, "--help")
    assert result.exit_code == 0
    assert f"\n    kubectl strandline {' '.join(path)}" in result.stdout


@pytest.mark.parametrize("path", USES, ids=" ".join)
def test_every_option_of_the_local_command_is_offered_or_listed_as_omitted(
    path: tuple[str, ...],
) -> None:
    """The test lists the omitted options, so a new option of a local command is noticed."""
    left_out = {
        "file",
        "files",
        "settings",
        "volume",
        "ask",
        "attempt_uid",
        "once",
        "to",
        "form",
        "metrics",
        "sample",
    }
    known = {
        "state",
        "limit",
        "keys",
        "all_of_them",
        "as_json",
        "no_bytes",
        "out",
        "title",
        "dry_run",
        "lists",
        "workers",
    }
    names = {param.name for param in find_command(path).params if param.expose_value}
    assert names - left_out <= known | {"license_id"}
