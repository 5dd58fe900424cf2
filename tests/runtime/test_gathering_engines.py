"""All engines gather the same, with a ledger and without."""

from __future__ import annotations

from pathlib import Path

import pytest

from gather_stages import LARGE, KeyList, LineMoments
from kill_stages import JoinLengths, SplitLines
from strandline.ledger.gather.verification import verify_pieces
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import PipelinePlan
from strandline.python.pipeline import Pipeline, work
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.stages.sinks.jsonl_sink import JsonlSink
from strandline.stages.sources.files import Files
from strandline.stages.tables.read_files import ReadFiles
from strandline.storage.layout import PipelineFolder
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.spec.policy import Checkpoint

ENGINES = ("inline", "processes", "ray", "ray-data")
SOURCES = 5

pytestmark = pytest.mark.usefixtures("local_ray")


def make_plan(texts: Path, out: Path | None = None) -> PipelinePlan:
    """Lines of texts; one stage counts them, one in batches, one with large pieces."""
    stages = [
        work(ReadFiles(), cpu=0.1),
        work(SplitLines(), cpu=0.1),
        work(LineMoments(), cpu=0.1),
        work(LineMoments(padding=LARGE), name="large", cpu=0.1),
        work(KeyList(), batch_size=3, cpu=0.1),
        work(JoinLengths(), group=2, cpu=0.1),
    ]
    sink = JsonlSink(path=str(out)) if out else JsonlSink()
    source = Files(paths=[f"{texts}/*"])
    return Pipeline("lines", source=source, stages=stages, sink=work(sink, cpu=0.1)).plan


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """A folder of texts, one of which fails."""
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(SOURCES):
        lines = [f"line {number}.{line}" * (line + 1) for line in range(number)]
        (folder / f"{number}.txt").write_text("\n".join(["", *lines]))
    (folder / "bad.txt").write_text("good\nraise\ngood")
    return folder


def read_all(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_all_engines_gather_the_same(texts: Path, tmp_path: Path) -> None:
    found = {}
    for engine in ENGINES:
        volume = tmp_path / engine
        config = AttemptConfig(
            make_plan(texts), volume, engine, checkpoint=Checkpoint(interval="100ms")
        )
        outcome = run_attempt(config)
        assert (ExitCode.SOURCES_FAILED, SOURCES) == (outcome.code, outcome.standing.finished)
        folder = PipelineFolder.of(volume, "default", "lines")
        found[engine] = read_all(folder.latest / "artifacts")
        store = Store(folder.ledger, readonly=True)
        assert [] == verify_pieces(store, folder.shards).problems
        store.close()
    assert {"key-list.merged", "large.json", "line-moments.json"} == found["inline"].keys()
    assert found["inline"] == found["ray"] == found["ray-data"]
    assert b"bad.txt" not in found["inline"]["key-list.merged"]
    lines = found["inline"]["key-list.merged"].splitlines()
    assert SOURCES * (SOURCES - 1) // 2 == len(lines)


def test_without_a_ledger_all_engines_gather_the_same(texts: Path, tmp_path: Path) -> None:
    found = []
    for engine in ENGINES:
        out = tmp_path / engine
        outcome = run_attempt(AttemptConfig(make_plan(texts, out), None, engine))
        assert (SOURCES, 1) == (outcome.standing.finished, outcome.standing.failed)
        found.append(read_all(tmp_path / f"{engine}-artifacts"))
    assert found[0] == found[1] == found[2]
    assert {"key-list.merged", "large.json", "line-moments.json"} == found[0].keys()
