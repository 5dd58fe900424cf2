"""Runs that read from and write to a server of each cloud, with kills."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from store_runs import COUNT, StoreRuns
from store_server import Store
from strandline_api.outcome.exit_codes import ExitCode

KILLED = -9


@pytest.fixture(scope="session")
def runs(cloud: Store, tmp_path_factory: pytest.TempPathFactory) -> StoreRuns:
    return StoreRuns(cloud, "corpus", tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def whole(runs: StoreRuns, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Provide the results of an undisturbed run."""
    volume = str(tmp_path_factory.mktemp("whole"))
    done = runs.run("run", "--engine", "inline", "--volume", volume, output="whole")
    assert done.returncode == 0, done.stderr
    assert len(runs.take_opened()) == COUNT
    verified = runs.run("verify", "--volume", volume, output="whole")
    assert (verified.returncode, f"{COUNT} finished sources" in verified.stdout) == (0, True)
    return runs.read_outputs("whole")


def test_every_row_arrives(whole: dict[str, bytes]) -> None:
    rows = [json.loads(line) for one in whole.values() for line in one.splitlines()]

    assert len(whole) == COUNT
    assert sorted((row["id"], row["row"]) for row in rows) == [
        (number, row) for number in range(COUNT) for row in range(number + 1)
    ]


@pytest.mark.parametrize(
    ("engine", "step"),
    [("inline", "output.written"), ("inline", "output.renamed"), ("ray", "commit.synced")],
)
def test_a_killed_run_resumes(
    runs: StoreRuns, whole: dict[str, bytes], tmp_path: Path, engine: str, step: str
) -> None:
    output = f"{engine}-{step.replace('.', '-')}"
    words = ("run", "--no-supervise", "--engine", engine, "--volume", str(tmp_path))
    nth = 2 if step.startswith("commit") else COUNT // 2
    fault = {"STRANDLINE_FAULT": f"{step}:kill:{nth}"}

    killed = runs.run(*words, output=output, extra=fault)

    assert killed.returncode != 0
    left = runs.read_outputs(output)
    assert left.items() <= whole.items()  # each output is complete or absent
    finished = runs.read_finished(tmp_path)
    runs.take_opened()
    again = runs.run(*words, output=output)

    assert again.returncode == 0, again.stderr
    opened = runs.take_opened()
    assert finished
    assert len(finished) + len(opened) == COUNT
    assert not finished.intersection(opened)
    assert runs.read_outputs(output) == whole
    verified = runs.run("verify", "--volume", str(tmp_path), output=output)
    assert verified.returncode == 0, verified.stdout


def test_wrong_keys_end_a_run_with_one_message(
    cloud: Store, runs: StoreRuns, tmp_path: Path
) -> None:
    for name, (extra, why) in cloud.spoilt.items():
        words = ("run", "--no-supervise", "--engine", "inline", "--volume", str(tmp_path / name))
        spoilt = {"AWS_EC2_METADATA_DISABLED": "true", **extra}

        done = runs.run(*words, output="wrong", extra=spoilt)

        assert done.returncode == ExitCode.APPLICATION_ERROR, name
        said = [line for line in done.stderr.splitlines() if line.startswith("strandline: error")]
        assert len(said) == 1, done.stderr
        assert f"{runs.url}/wrong: can't be read (" in said[0]
        assert why in said[0]
        assert "Traceback" not in done.stderr


def test_an_invalid_bucket_is_named(runs: StoreRuns, tmp_path: Path) -> None:
    if runs.url.startswith("gs://"):
        pytest.skip("the server that plays Google's stores takes any name")
    words = ("run", "--no-supervise", "--engine", "inline", "--volume", str(tmp_path))
    place = f"{runs.url.partition('://')[0]}://No-Such-Bucket/out"
    sink = ("--set", f"spec.storage.output.url={place}")

    done = runs.run(*words, *sink, output="wrong")

    assert done.returncode == ExitCode.APPLICATION_ERROR, done.stderr
    assert f"{place}: can't be read (" in done.stderr


def test_a_removed_source_takes_its_rows_out_of_a_shared_file(
    runs: StoreRuns, tmp_path: Path
) -> None:
    words = ("--volume", str(tmp_path), "--set", "spec.sink.with.targetBytes=100000")
    fewer = (
        *("--set", "spec.source.with.onRemoved=Delete", "--set", "spec.onChange=Continue"),
        *("--set", f'spec.source.with.paths=["{runs.url}/in/0*.jsonl"]'),
    )
    for more, count in (((), COUNT), (fewer, 10)):
        done = runs.run("run", "--engine", "inline", *words, *more, output="shared")
        proof = runs.run("verify", *words, *more, output="shared")
        files = runs.read_outputs("shared")
        rows = [json.loads(line)["id"] for file in files.values() for line in file.splitlines()]

        assert (done.returncode, proof.returncode) == (0, 0), done.stderr + proof.stdout
        assert sorted(rows) == [number for number in range(count) for _ in range(number + 1)]
        assert len(files) < count / 2


def test_a_run_continues_from_results_kept_in_a_store(runs: StoreRuns, tmp_path: Path) -> None:
    words = ("--engine", "inline", "--volume", str(tmp_path), "--set", "onChange=Redo")
    kept = ("--set", "stages.1.keep=true")
    runs.take_opened()
    done = runs.run("run", *words, *kept, output="redo")
    assert done.returncode == 0, done.stderr
    assert len(runs.take_opened()) == COUNT
    again = runs.run("run", *words, *kept, "--set", "sink.use=parquet", output="redo")
    assert again.returncode == 0, again.stderr
    assert runs.take_opened() == []
    found = runs.read_outputs("redo")
    assert len(found) == 2 * COUNT
    assert {name.rpartition(".")[2] for name in found} == {"arrow", "parquet"}
    runs.files.rm(f"{runs.bucket}/redo/_strandline/kept", recursive=True)
    changed = runs.run("run", *words, *kept, "--set", "sink.use=jsonl", output="redo")
    assert changed.returncode == 0, changed.stderr
    assert len(runs.take_opened()) == COUNT
    pruned = runs.run(
        "kept", "prune", "--older-than", "0s", "--volume", str(tmp_path), output="redo"
    )
    assert pruned.returncode == 0, pruned.stderr
    assert len(runs.read_outputs("redo")) == COUNT
    verified = runs.run("verify", "--volume", str(tmp_path), output="redo")
    assert (verified.returncode, f"{COUNT} finished sources" in verified.stdout) == (0, True)
