"""A second run in the same process sees the changes of a store since the first run."""

from __future__ import annotations

import json
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from store_server import Store
from strandline import ExitCode, Outcome, Pipeline
from strandline.stages import JsonlFiles, JsonlSink, ReadJsonl


@pytest.fixture
def bucket(cloud: Store, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Provide a separate folder of a bucket for each test. This process has the store's keys."""
    for name, value in cloud.variables.items():
        monkeypatch.setenv(name, value)
    name = f"today-{blake2b(request.node.name.encode()).hexdigest()[:12]}"  # no brackets
    cloud.open().mkdir(name)
    return f"{name}/below"


def put(store: Store, path: str, *numbers: int) -> None:
    store.open().pipe_file(path, b"".join(b'{"n": %d}\n' % number for number in numbers))


def read(store: Store, folder: str) -> list[int]:
    files = store.open()
    names = [name for name in files.find(folder) if name.endswith(".jsonl")]
    return sorted(json.loads(line)["n"] for name in names for line in files.cat(name).splitlines())


def run(
    store: Store, bucket: str, volume: Path, name: str, of: str, to: str, **sink: Any
) -> Outcome:
    pipeline = Pipeline(
        name,
        source=JsonlFiles(paths=[f"{store.protocol}://{bucket}/{of}/**"], on_removed="Delete"),
        stages=[ReadJsonl()],
        sink=JsonlSink(path=f"{store.protocol}://{bucket}/{to}", **sink),
    )
    outcome = pipeline.run(volume, engine="inline")
    assert outcome.code is ExitCode.COMPLETE, outcome
    return outcome


def test_a_second_run_of_the_process_sees_new_changed_and_removed_files(
    cloud: Store, bucket: str, tmp_path: Path
) -> None:
    for number in range(3):
        put(cloud, f"{bucket}/in/{number}.jsonl", number)
    run(cloud, bucket, tmp_path, "lines", "in", "out")
    assert read(cloud, f"{bucket}/out") == [0, 1, 2]

    put(cloud, f"{bucket}/in/1.jsonl", 10, 11)
    put(cloud, f"{bucket}/in/more/3.jsonl", 3)
    cloud.open().rm_file(f"{bucket}/in/2.jsonl")
    run(cloud, bucket, tmp_path, "lines", "in", "out")

    assert read(cloud, f"{bucket}/out") == [0, 3, 10, 11]


@pytest.mark.parametrize("target_bytes", [None, 100_000], ids=["a file each", "shared files"])
def test_a_second_pass_of_the_process_sees_files_written_by_the_first(
    cloud: Store, bucket: str, tmp_path: Path, target_bytes: int | None
) -> None:
    sink = {} if target_bytes is None else {"target_bytes": target_bytes}
    put(cloud, f"{bucket}/in/0.jsonl", 0)
    for passes in ([0], [0, 1, 2], [1, 2]):
        for number in passes:
            put(cloud, f"{bucket}/in/{number}.jsonl", number)
        if 0 not in passes:
            cloud.open().rm_file(f"{bucket}/in/0.jsonl")
        run(cloud, bucket, tmp_path, "first", "in", "between", **sink)
        run(cloud, bucket, tmp_path, "second", "between", "out")

        assert read(cloud, f"{bucket}/between") == passes
        assert read(cloud, f"{bucket}/out") == passes
