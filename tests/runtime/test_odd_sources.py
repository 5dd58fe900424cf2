"""One odd source fails alone, with stage and message, and the rest goes on: in every engine."""

from __future__ import annotations

from pathlib import Path

import pytest

import odd_stages as odd
from shell_streams import own_stdout
from strandline.engine.core.flow import StageBrokenError
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.plan.planning import check_plan
from strandline.storage.layout import PipelineFolder
from strandline_api.outcome.exit_codes import ExitCode
from test_engines import make_plan, run

pytestmark = pytest.mark.usefixtures("local_ray")
every = pytest.mark.parametrize("engine", ["inline", "processes", "ray", "ray-data"])

WANTED = {
    "mute": ("odd", "MuteError (odd_stages.py:"),
    "surrogate": ("odd", "ValueError: half \\ud800 (odd_stages.py:"),
    "exit": ("odd", "SystemExit: 3 (odd_stages.py:"),
    "generator exit": ("odd", "GeneratorExit (odd_stages.py:"),
    "unpicklable": ("odd", "what it answered can't be pickled: SystemExit: 3"),
    "unreadable": ("printing", "what it is given can't be unpickled: ValueError: no more"),
    "lock": ("odd", "what it answered can't be pickled: TypeError: cannot pickle '_thread.lock'"),
    "odd failure": ("odd", "half \\ud800"),
    "deep": ("odd", "RecursionError: maximum recursion depth exceeded"),
    "late": ("odd", "ValueError: too late (odd_stages.py:"),
    "closed": ("odd", "it closed stdout, which others write to; leave it open"),
    "key \\ud800": ("sources", "its key holds half a character, which UTF-8 can't spell"),
    "locked": ("sources", "what it lists can't be pickled: TypeError: cannot pickle"),
    "unread": ("odd", "what it is given can't be unpickled: ValueError: no more"),
}


def make_odd_plan() -> PipelinePlan:
    source = StagePlan("sources", "odd", odd.OddSources())
    first = StagePlan("odd", "odd", odd.Odd(), cpu=0.1)
    second = StagePlan("printing", "odd", odd.Printing(), cpu=0.1, batch_size=4)
    return check_plan("default", "odd", source, [first, second, make_plan().stages[-1]])


def read_failures(volume: Path, name: str) -> dict[str, tuple[str, str]]:
    store = Store(PipelineFolder.of(volume, "default", name).ledger, readonly=True)
    failures = {
        failure.key: (failure.stage, failure.message) for _, failure in store.list_failures()
    }
    store.close()
    return failures


@every
def test_law_one_odd_source_fails_alone(engine: str, tmp_path: Path) -> None:
    with own_stdout(tmp_path / "printed"):
        outcome = run(make_odd_plan(), tmp_path / "volume", engine)

    standing = outcome.standing
    assert (standing.finished, standing.failed, standing.unfinished) == (14, 14, 0)
    assert outcome.incidents == ()
    failures = read_failures(tmp_path / "volume", "odd")
    assert failures.keys() == WANTED.keys()
    for key, (stage, message) in WANTED.items():
        assert failures[key][0] == stage, (key, failures[key])
        assert failures[key][1].startswith(message), (key, failures[key])


# A forked worker is given so many at once that some of them are good.
@pytest.mark.parametrize("engine", ["inline", "ray", "ray-data"])
def test_law_bad_sources_at_the_head_do_not_hide_those_behind_them(
    engine: str, tmp_path: Path
) -> None:
    plan = make_plan(odd.Bad(), count=80)
    volume = tmp_path / "volume"

    with pytest.raises(StageBrokenError, match="'stage-0' failed each of its first"):
        run(plan, volume, engine)
    failed = len(read_failures(volume, "numbers"))
    outcome = run(plan, volume, engine)

    assert failed >= 50  # it was known before the run gave up
    assert outcome.code == ExitCode.SOURCES_FAILED
    assert (outcome.standing.finished, outcome.standing.failed) == (20, 60)
