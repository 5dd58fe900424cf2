"""The operator's command: help, version, and a one-sentence message per startup error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # the tests start the command


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-m", "strandline_operator", *arguments]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STRANDLINE_")}
    return subprocess.run(
        command,
        env={**kept, **environment},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_help_has_an_example_and_every_variable() -> None:
    done = run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Example: strandline-operator --namespaces corpora" in " ".join(done.stdout.split())
    assert "STRANDLINE_RETRIES_PER_MINUTE" in done.stdout


def test_version_is_that_of_the_distribution() -> None:
    done = run("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("strandline-operator 0.")


@pytest.mark.parametrize(
    ("arguments", "environment", "said"),
    [
        (
            ["--concurrency", "0"],
            {},
            "strandline-operator: --concurrency: must be at least 1, not '0'\n",
        ),
        (
            [],
            {"STRANDLINE_LOG_FORMAT": "xml"},
            "strandline-operator: STRANDLINE_LOG_FORMAT: must be 'json' or 'text', not 'xml'\n",
        ),
        (
            ["--log-levl", "INFO"],
            {},
            "strandline-operator: unrecognized arguments: --log-levl INFO; "
            "--help lists the options\n",
        ),
    ],
)
def test_bad_settings_are_one_sentence(
    arguments: list[str], environment: dict[str, str], said: str
) -> None:
    done = run(*arguments, **environment)
    assert (done.returncode, done.stdout, done.stderr) == (64, "", said)


def test_a_missing_cluster_is_one_sentence(tmp_path: Path) -> None:
    done = run("--metrics-port", "0", KUBECONFIG=str(tmp_path / "missing"))
    assert done.returncode == 64
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("strandline-operator: no usable cluster configuration: ")


def test_garbage_searches_are_monitored_while_serving(tmp_path: Path) -> None:
    program = """
import gc
from strandline_operator import __main__ as command
async def serve(**_):
    print([type(each).__name__ for each in gc.callbacks])
command.kopf.operator = serve
command.main(["--metrics-port", "0", "--liveness-port", "0"])
"""
    cluster = {"name": "x", "cluster": {"server": "https://127.0.0.1:1"}}
    context = {"name": "x", "context": {"cluster": "x", "user": "x"}}
    user = {"name": "x", "user": {"token": "x"}}
    config = {"clusters": [cluster], "contexts": [context], "users": [user], "current-context": "x"}
    (tmp_path / "config").write_text(json.dumps(config))
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "KUBECONFIG": str(tmp_path / "config")},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "['GarbageWatch']\n"), done.stderr
