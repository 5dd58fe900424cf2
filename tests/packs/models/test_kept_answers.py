"""Paid answers are found by their request, independent of source names and workers."""

from __future__ import annotations

import gc
import shutil
from pathlib import Path
from typing import Any

import pytest

from fake_model import FakeModel
from mounts import fill, mounted_small
from strandline.plan.errors import StageStoppedError
from strandline.stages import AskModel
from strandline.storage.access.stores import open_store
from strandline.storage.errors import VolumeError
from strandline_packs.models.asking.answers import ModelAnswer
from strandline_packs.models.asking.log.request_log import FileLog
from test_ask_model import URL, Asked, texts
from test_conversations import summarize_twice

OLD_LOG = Path(__file__).parents[2] / "fixtures/requests"  # of a source `ssss…`: a, b, c
FOUND = "requests answered by the log"
# Log places below the folder of a test.
PLACES = ["{folder}/log", "memory://{folder}/log"]


def ask(model: FakeModel, log: str, rows: list[Any], source: str, **values: Any) -> list[Any]:
    """Send requests as a separate process would, from the log's view; return the answers."""
    asked = Asked(model, None, requests=log, **values)
    found, marks = asked.run(texts(*rows), source)
    assert not marks
    return [row["answer"] for row in found]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"a": ["1", "2", "3"]}, {"renamed": ["1", "2", "3"]}),
        ({"part-0-of-3": ["1", "2", "3"]}, {"part-0-of-4": ["1", "2", "3"], "x": ["new"]}),
        ({"a": ["1"], "b": ["2"], "c": ["3"]}, {"compacted": ["1", "2", "3"]}),
        ({"whole": ["1", "2", "3"]}, {"s1": ["2"], "s2": ["3", "1"]}),
        ({"a": ["1", "2"], "b": ["3"]}, {"b": ["1", "2"], "a": ["3"]}),
    ],
    ids=["renamed", "one row more", "compacted", "split", "swapped"],
)
def test_requests_are_not_repeated_for_renamed_sources(
    tmp_path: Path, place: str, before: dict[str, list[str]], after: dict[str, list[str]]
) -> None:
    model, log = FakeModel(), place.format(folder=tmp_path)
    for sources in (before, after):
        for source, rows in sources.items():
            assert ask(model, log, rows, source) == [f"echo: {row}" for row in rows]
    assert set(model.asked.values()) == {1}


@pytest.mark.parametrize("place", PLACES)
def test_a_conversation_finds_its_answers_in_a_renamed_source(tmp_path: Path, place: str) -> None:
    model, log = FakeModel(), place.format(folder=tmp_path)
    rollout = f"{summarize_twice.__module__}:{summarize_twice.__name__}"
    talk: dict[str, Any] = {"prompt": None, "rollout": rollout}
    for source in ("a", "b"):
        ask(model, log, ["1", "2"], source, **talk)
    assert set(model.asked.values()) == {1}


def test_workers_find_recent_answers_of_other_workers(tmp_path: Path) -> None:
    model, log = FakeModel(), str(tmp_path)
    first, second = (Asked(model, None, requests=log) for _ in range(2))
    for number in range(3):
        first.run(texts(f"{number}", "same"), f"a{number}")
        second.run(texts(f"{number}", "same"), f"b{number}")
    assert set(model.asked.values()) == {1}
    assert second.stage.counters[FOUND] == 6


@pytest.mark.parametrize("place", PLACES)
def test_answers_of_the_previous_layout_are_found_under_any_name(
    tmp_path: Path, place: str
) -> None:
    model, log = FakeModel(), place.format(folder=tmp_path)
    (old,) = OLD_LOG.rglob("*.requests")
    if place.startswith("memory"):
        store, root = open_store(log)
        store.pipe_file(f"{root}/{old.parent.name}/{old.stem}/w1-000000.requests", old.read_bytes())
    else:
        shutil.copytree(OLD_LOG, tmp_path / "log")
    for source in ("ssss", "renamed"):
        assert ask(model, log, ["c", "a", "d", "b"], source) == [
            f"echo: {row}" for row in ("c", "a", "d", "b")
        ]
    assert model.asked == {"d": 1}


def test_a_log_in_a_store_keeps_all_answers_of_a_worker_that_returns_to_a_source(
    tmp_path: Path,
) -> None:
    model, log = FakeModel(), f"memory://{tmp_path}/log"
    asked = Asked(model, None, requests=log)
    for turn in range(4):
        for source in ("a", "b"):
            asked.run(texts(f"{source}{turn}"), source)
    assert len(model.asked) == 8
    ask(model, log, [f"{source}{turn}" for turn in range(4) for source in "ab"], "c")
    assert set(model.asked.values()) == {1}


def test_damaged_bytes_cost_only_their_own_answers(tmp_path: Path) -> None:
    model, log = FakeModel(), str(tmp_path / "log")
    asked = Asked(model, None, requests=log, concurrency=1)
    asked.run(texts(*range(20)))
    (path,) = (tmp_path / "log").rglob("*.requests")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    for _ in range(2):  # the second answer is found even after the damaged answer
        ask(model, log, list(range(20)), "b")
    assert model.asked.total() == 21


def test_only_places_of_answers_stay_in_memory(tmp_path: Path) -> None:
    model = FakeModel(answer=lambda prompt: prompt * 10_000)
    asked = Asked(model, None, requests=str(tmp_path))
    for turn in range(3):
        asked.run(texts(*range(turn * 100, turn * 100 + 100)))
    gc.collect()
    texts_left = [each for each in gc.get_objects() if isinstance(each, ModelAnswer)]
    assert not texts_left
    assert len(list(FileLog(next(tmp_path.rglob("*.requests"))).read())) == 300


@pytest.mark.parametrize("blocked", ["answers", "spent.account"])
def test_a_failing_volume_stops_the_run_and_fails_no_row(tmp_path: Path, blocked: str) -> None:
    model = FakeModel()
    asked = Asked(model, None, requests=str(tmp_path), budget={"requests": 100}, concurrency=2)
    if blocked == "answers":
        (tmp_path / blocked).touch()  # a file where the log needs a folder
    else:
        (tmp_path / blocked).mkdir()
    with pytest.raises(VolumeError, match=blocked):
        asked.run(texts(*range(50)))
    assert model.asked.total() <= 2


def test_a_full_disk_stops_the_run_and_kept_answers_stay(tmp_path: Path) -> None:
    with mounted_small(tmp_path / "volume", 1 << 20) as volume:
        model, log = FakeModel(), str(volume / "log")
        ask(model, log, ["a", "b"], "a")
        fill(volume)
        with pytest.raises(VolumeError, match="no space is left on the volume"):
            Asked(model, None, requests=log).run(texts(*(f"{n}" * 2000 for n in range(50))))
        (volume / "filling").unlink()
        ask(model, log, ["a", "b"], "b")
        assert (model.asked["a"], model.asked["b"]) == (1, 1)


async def swallow(row: dict[str, Any], talk: Any) -> str:
    """Continue after any error."""
    try:
        return str((await talk(row["text"])).text)
    except Exception:  # noqa: BLE001 - as users write it
        return "nothing"


def test_a_conversation_that_catches_everything_does_not_hide_a_failing_volume(
    tmp_path: Path,
) -> None:
    asked = Asked(
        FakeModel(),
        None,
        prompt=None,
        rollout=f"{__name__}:swallow",
        requests=str(tmp_path),
        budget={"requests": 100},
    )
    (tmp_path / "spent.account").mkdir()
    with pytest.raises(VolumeError):
        asked.run(texts("a", "b"))


@pytest.mark.parametrize("named", ["file://{folder}/log", "log", "./log", "{folder}/log"])
def test_a_folder_for_the_log_is_the_same_in_every_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    model, work = FakeModel(), tmp_path / "of the worker"
    work.mkdir()
    monkeypatch.chdir(tmp_path)
    params = AskModel.Params.model_validate(
        {"url": URL, "model": "fake-1", "prompt": "{{ text }}"}
        | {"requests": named.format(folder=tmp_path)}
    )
    monkeypatch.chdir(work)
    assert params.requests is not None
    ask(model, params.requests, ["a"], "a")
    assert len(list((tmp_path / "log").rglob("*.requests"))) == 1
    assert not list(work.iterdir())


def test_a_server_that_ends_the_attempt_loses_no_answer(tmp_path: Path) -> None:
    model = FakeModel()
    model.choose = lambda *_: "gone" if len(model.answered) >= 5 else None
    with pytest.raises(StageStoppedError):
        Asked(model, None, requests=str(tmp_path), concurrency=1).run(texts(*range(9)))
    model.choose = lambda *_: None
    ask(model, str(tmp_path), list(range(5)), "b")
    assert len(model.answered) == 5
