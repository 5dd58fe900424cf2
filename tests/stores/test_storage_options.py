"""Stores that a source's options configure, with an empty or different environment."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from cloud_servers import ACCOUNT_KEY, AzureStore
from store_runs import execute_on_stores
from store_server import KEY, SECRET, Store
from strandline_api.outcome.exit_codes import ExitCode

BUCKET = "asked"
FOREIGN = ("AWS_", "AZURE_", "STORAGE_EMULATOR_HOST")


@pytest.fixture(scope="session")
def filled(cloud: Store) -> Store:
    files = cloud.open()
    files.mkdir(BUCKET)
    files.pipe_file(f"{BUCKET}/in/a.jsonl", b'{"n": 1}\n{"n": 2}\n')
    return cloud


def choose_options(store: Store) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a source's store options, and variables with user-defined names."""
    if store.protocol == "s3":
        names = {"accessKeyId": "READER_KEY", "secretAccessKey": "READER_SECRET"}
        values = {"READER_KEY": KEY, "READER_SECRET": SECRET, "AWS_DEFAULT_REGION": "us-east-1"}
        return {"endpoint": store.url, "credentials": names}, values
    if isinstance(store, AzureStore):
        text = store.connect(ACCOUNT_KEY)
        return {"credentials": {"connectionString": "READER_STRING"}}, {"READER_STRING": text}
    kinds = {"GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false"}
    return {"endpoint": store.url, "anonymous": True}, kinds


def run(
    folder: Path, store: Store, options: dict[str, Any], variables: Mapping[str, str], engine: str
) -> tuple[subprocess.CompletedProcess[str], list[int]]:
    paths = [f"{store.protocol}://{BUCKET}/in/*.jsonl"]
    document = {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": "asked"},
        "spec": {
            "source": {"use": "jsonl-files", "with": {"paths": paths, "storageOptions": options}},
            "stages": [{"use": "read-jsonl"}],
            "sink": {"use": "jsonl"},
        },
    }
    (folder / "asked.yaml").write_text(yaml.safe_dump(document))
    volume = str(folder / "volume")
    words = ["run", "asked.yaml", "--no-supervise", "--engine", engine, "--volume", volume]
    known = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    own = {"AWS_EC2_METADATA_DISABLED": "true", "HOME": str(folder)}
    done = execute_on_stores(*words, env={**known, **own, **variables}, cwd=folder)
    files = (folder / "volume").rglob("output/**/*.jsonl")
    rows = [json.loads(line)["n"] for path in files for line in path.read_text().splitlines()]
    return done, sorted(rows)


@pytest.mark.parametrize("engine", ["inline", "ray"])
def test_listing_and_readers_use_the_sources_store_options(
    filled: Store, tmp_path: Path, engine: str
) -> None:
    options, variables = choose_options(filled)
    done, rows = run(tmp_path, filled, options, variables, engine)
    assert done.returncode == 0, done.stderr
    assert rows == [1, 2]


def test_a_missing_secret_variable_is_named(filled: Store, tmp_path: Path) -> None:
    options, variables = choose_options(filled)
    if "credentials" not in options:
        pytest.skip("the server that plays Google's stores asks for none")
    missing = {name: value for name, value in variables.items() if "READER" not in name}
    done, rows = run(tmp_path, filled, options, missing, "inline")
    assert (done.returncode, rows) == (ExitCode.APPLICATION_ERROR, [])
    assert "the environment variable READER_" in done.stderr
    assert "Traceback" not in done.stderr
