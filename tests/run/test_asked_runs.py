"""Runs that call a model: each row is answered or dead, and no answer is paid for twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from fake_model import LASTING, MODEL, FakeModel, Fault, draw_faults, serve
from mounts import fill, mounted_small
from pipeline_runs import Passes
from strandline.cli.app.commands import program
from strandline.ledger.checks.counts import count_dead_letters
from strandline.plan.errors import StageStoppedError
from strandline.storage.errors import VolumeError
from strandline_api.outcome.causes import Cause
from strandline_api.outcome.exit_codes import ExitCode
from strandline_packs.models.asking.log.request_log import FileLog
from vendor_replies import HIDDEN_ERRORS, NO_ANSWERS, choose

NAME, FILES, ROWS = "asked", 3, 200
# A program that makes one run and is then killed. Its arguments are the folder and the spec.
_RUN = """
import json, sys
from pathlib import Path
from pipeline_runs import Passes
Passes(Path(sys.argv[1])).run("asked", **json.loads(sys.argv[2]))
"""


class AskingRuns:
    """A pipeline over files of prompts, and the model that answers the prompts."""

    def __init__(self, folder: Path, rows: int = ROWS) -> None:
        self.passes, self.texts = Passes(folder), folder / "in"
        self.texts.mkdir()
        self.prompts = []
        for file in range(FILES):
            prompts = [f"{file}-{row}" for row in range(rows)]
            self.prompts += prompts
            lines = [json.dumps({"text": prompt}) + "\n" for prompt in prompts]
            (self.texts / f"{file}.jsonl").write_text("".join(lines))

    def describe(self, url: str, **values: Any) -> dict[str, Any]:
        ask = {"url": url, "model": MODEL, "prompt": "{{ text }}", "concurrency": 16, **values}
        return {
            "source": {"use": "files", "with": {"paths": [f"{self.texts}/*.jsonl"]}},
            "stages": [
                {"use": "read-jsonl"},
                {"use": "ask-model", "with": ask, "onError": "deadLetter"},
            ],
            "sink": {"use": "parquet"},
        }

    def run(self, url: str, **values: Any) -> ExitCode:
        return self.passes.run(NAME, **self.describe(url, **values)).code

    def run_and_kill(self, url: str, model: FakeModel, asked: int) -> None:
        """Run in a separate process, and kill the process after a number of requests."""
        folder, spec = str(self.passes.folder), json.dumps(self.describe(url))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        driver = subprocess.Popen(
            [sys.executable, "-c", _RUN, folder, spec],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while driver.poll() is None and model.asked.total() < asked:
            time.sleep(0.002)
        driver.send_signal(signal.SIGKILL)
        assert driver.wait() == -signal.SIGKILL

    def read(self) -> Counter[str]:
        """Return all output rows, both answered and dead."""
        return Counter(row["text"] for row in self.rows())

    def rows(self) -> list[dict[str, Any]]:
        return [
            row
            for path in self.passes.find_output(NAME).rglob("*.parquet")
            for row in pq.read_table(path).to_pylist()
        ]

    def list_logged(self) -> list[str]:
        """Return the prompts whose answers are in the log."""
        logs = self.passes.volume.rglob("requests/ask-model/*/*.requests")
        answers = [entry.answer.text for path in logs for entry in FileLog(path).read()]
        return [answer.removeprefix("echo: ") for answer in answers]


def test_each_row_is_answered_or_dead_exactly_once(tmp_path: Path) -> None:
    faults = draw_faults(3, 0.2, most=1, passing=["half"])
    runs, model = AskingRuns(tmp_path, 40), FakeModel(choose=faults)
    with serve(model) as url:
        assert runs.run(url) is ExitCode.COMPLETE
    dead = [prompt for prompt in runs.prompts if any(faults(prompt, n) in LASTING for n in (1, 2))]
    assert dead
    assert Counter(runs.prompts) == runs.read()
    assert dead == sorted(
        (row["text"] for row in runs.rows() if "dead_stage" in row), key=runs.prompts.index
    )
    assert not runs.passes.find_problems(NAME)
    with runs.passes.opened(NAME) as store:
        assert count_dead_letters(store).rows == {"ask-model": len(dead)}
    assert set(runs.list_logged()) == set(runs.prompts) - set(dead)


@pytest.mark.slow
@pytest.mark.parametrize("kills", [(30, 350)])
def test_a_logged_answer_is_never_requested_again_after_a_kill(
    tmp_path: Path, kills: tuple[int, ...]
) -> None:
    runs, model = AskingRuns(tmp_path), FakeModel()
    logged_at_once = []
    with serve(model, delay=lambda: time.sleep(0.005)) as url:
        for kill in kills:
            runs.run_and_kill(url, model, kill)
            logged, before = runs.list_logged(), Counter(model.asked)
            logged_at_once.append(len(logged))
            assert len(set(logged)) == len(logged)
            model.choose = _refuse_all(logged)  # refuse repeated requests
            assert model.asked == before
        assert runs.run(url) is ExitCode.COMPLETE
    assert logged_at_once[-1] > 0
    assert Counter(runs.prompts) == runs.read()
    assert all(row["answer"] == f"echo: {row['text']}" for row in runs.rows())
    # A kill costs only the requests that were in flight.
    assert model.asked.total() <= len(runs.prompts) + len(kills) * 16


def _refuse_all(prompts: list[str]) -> Any:
    refused = set(prompts)
    return lambda prompt, time: "refused" if prompt in refused else None


def test_a_new_run_over_the_same_rows_costs_no_request(tmp_path: Path) -> None:
    runs, model = AskingRuns(tmp_path, 10), FakeModel()
    with serve(model) as url:
        assert runs.run(url) is ExitCode.COMPLETE
        spec = runs.describe(url)
        spec["stages"].append({"use": "select-columns", "with": {"columns": ["text", "answer"]}})
        outcome = runs.passes.run(NAME, on_change="Restart", **spec)
    assert outcome.code is ExitCode.COMPLETE
    assert {"text", "answer"} == runs.rows()[0].keys()
    assert model.asked.total() == len(runs.prompts)


def test_refused_rows_and_bad_endings_are_dead_letters_and_only_they_are_retried(
    tmp_path: Path,
) -> None:
    hidden, _, words = HIDDEN_ERRORS["openrouter: of the choice"]
    faults: dict[str, Fault] = {
        "0-3": "forbidden",
        "0-9": hidden,
        "1-5": "busy for no time",
        "2-7": choose("and then", "MAX_TOKENS"),
        "2-8": NO_ANSWERS["half a character"],
    }
    runs, model = AskingRuns(tmp_path, 40), FakeModel(choose=lambda prompt, _: faults.get(prompt))
    with serve(model) as url:
        assert runs.run(url, tries=2) is ExitCode.COMPLETE
    letters = [row for row in runs.rows() if "dead_stage" in row]
    dead = {row["text"]: row["dead_message"] for row in letters}
    assert {row["text"]: row["dead_detail"] for row in letters} == {
        **dict.fromkeys(["0-3", "0-9", "1-5"]),
        "2-7": "and then",
        "2-8": "smile ?!",
    }
    assert dead.keys() == faults.keys()
    assert "403: No access to this input" in dead["0-3"]
    assert words in dead["0-9"]
    assert Counter(runs.prompts) == runs.read()
    assert {model.asked[prompt] for prompt in runs.prompts if prompt not in faults} == {1}
    assert set(runs.list_logged()) == set(runs.prompts) - faults.keys()


def test_a_refused_key_ends_the_attempt_and_fails_no_source(tmp_path: Path) -> None:
    runs, model = AskingRuns(tmp_path, 10), FakeModel(key="another")
    with (
        serve(model) as url,
        pytest.raises(StageStoppedError, match="the server rejects the key") as found,
    ):
        runs.run(url)
    assert found.value.is_lasting
    assert model.asked.total() <= 16
    model.key = None
    with serve(model) as url:
        assert runs.run(url) is ExitCode.COMPLETE
    assert Counter(runs.prompts) == runs.read()


@pytest.mark.parametrize("engine", ["inline", "processes"])
def test_a_server_that_is_down_is_the_cause_of_the_end(tmp_path: Path, engine: str) -> None:
    runs = AskingRuns(tmp_path, 2)
    spec = runs.describe("http://127.0.0.1:1/v1", patience=0.001)
    with pytest.raises(StageStoppedError, match="the server has not responded for"):
        runs.passes.run(NAME, engine=engine, **spec)
    record = runs.passes.read_record(NAME)
    assert record.cause is Cause.MODEL_UNAVAILABLE
    assert record.outcome is not None
    assert {"outcome", "exit code"} == {seen.source for seen in record.outcome.evidence}


def test_logs_are_listed_and_pruned_by_commands(tmp_path: Path) -> None:
    runs, model = AskingRuns(tmp_path, 5), FakeModel()
    with serve(model) as url:
        runs.run(url)

    def call(*words: str) -> str:
        volume = ["--volume", str(runs.passes.volume)]
        found = CliRunner().invoke(program, ["requests", *words, *volume])
        assert found.exit_code == 0, found.output
        return found.output

    manifest = str(tmp_path / f"{NAME}.yaml")
    assert "ask-model: 15 requests, " in call("list", manifest)
    assert json.loads(call("list", manifest, "--json"))[0]["requests"] == 15
    assert call("prune", manifest, "--older-than", "1h") == "ask-model: 0 requests pruned\n"
    assert call("prune", manifest, "--older-than", "0s") == "ask-model: 15 requests pruned\n"
    assert "ask-model: 0 requests, " in call("list", manifest)


def test_a_folder_for_the_log_can_be_named(tmp_path: Path) -> None:
    runs, model = AskingRuns(tmp_path, 5), FakeModel()
    with serve(model) as url:
        runs.run(url, requests=str(tmp_path / "elsewhere"))
    assert not runs.list_logged()
    assert len(list((tmp_path / "elsewhere").rglob("*.requests"))) == 1


@pytest.mark.parametrize("engine", ["inline", "processes"])
def test_rows_of_renamed_split_and_compacted_inputs_cost_no_request(
    tmp_path: Path, engine: str
) -> None:
    runs, model = AskingRuns(tmp_path, 20), FakeModel()
    with serve(model) as url:
        for change in (None, "rename", "add", "compact"):
            if change == "rename":
                for path in list(runs.texts.iterdir()):
                    path.rename(path.with_name(f"renamed-{path.name}"))
            elif change == "add":
                with min(runs.texts.iterdir()).open("a") as file:
                    file.write('{"text": "new"}\n')
            elif change == "compact":
                lines = [path.read_text() for path in sorted(runs.texts.iterdir())]
                for path in runs.texts.iterdir():
                    path.unlink()
                (runs.texts / "compacted.jsonl").write_text("".join(lines))
            spec = runs.describe(url)
            assert runs.passes.run(NAME, engine=engine, **spec).code is ExitCode.COMPLETE
    assert model.asked == Counter({**dict.fromkeys(runs.prompts, 1), "new": 1})


@pytest.mark.parametrize("engine", ["inline", "processes"])
def test_a_full_volume_under_the_log_ends_the_run_with_its_code_and_fails_no_row(
    tmp_path: Path, engine: str
) -> None:
    runs, model = AskingRuns(tmp_path, 20), FakeModel()
    with mounted_small(tmp_path / "small", 1 << 20) as small, serve(model) as url:
        fill(small)
        spec = runs.describe(url, requests=str(small / "log"), concurrency=2)
        with pytest.raises(VolumeError, match="no space is left on the volume") as caught:
            runs.passes.run(NAME, engine=engine, **spec)
        assert caught.value.exit_code is ExitCode.VOLUME_UNUSABLE
        (small / "filling").unlink()
        outcome = runs.passes.run(NAME, engine=engine, **spec)
    assert outcome.code is ExitCode.COMPLETE
    assert Counter(runs.prompts) == runs.read()
    assert not any("dead_stage" in row for row in runs.rows())
