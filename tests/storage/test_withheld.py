"""A withheld publication is complete and kept, but readers never get it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from publication_builders import FILES, Crash, make, resolved, watch_steps
from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.latest import find_target, pin, unpin
from strandline.storage.volume.publications import publish, retain
from strandline.storage.volume.published import read_publication

WHY = ("rows: there are 3, and at least 10 are required",)


@pytest.fixture
def folder(tmp_path: Path) -> PipelineFolder:
    """Return the folder of a pipeline without publications."""
    return PipelineFolder.on_volume(tmp_path, "default", "corpus")


def test_latest_keeps_its_target(folder: PipelineFolder) -> None:
    make(folder, (1, 1))
    made = publish(folder, 2, FILES, {}, withheld=WHY)
    assert resolved(folder) == (1, 1)
    again = read_publication(folder, made.identity)
    assert again is not None
    assert again.withheld == WHY


def test_readers_find_nothing_if_all_publications_are_withheld(folder: PipelineFolder) -> None:
    publish(folder, 1, FILES, {}, withheld=WHY)
    assert resolved(folder) is None
    assert find_target(folder, folder.latest) is None


def test_a_lost_link_is_replaced_by_the_newest_unwithheld_publication(
    folder: PipelineFolder,
) -> None:
    make(folder, (1, 1), (1, 2))
    publish(folder, 2, FILES, {}, withheld=WHY)
    folder.latest.unlink()
    assert resolved(folder) == (1, 2)


def test_a_user_may_choose_a_withheld_publication_and_undo_that(folder: PipelineFolder) -> None:
    make(folder, (1, 1))
    made = publish(folder, 2, FILES, {}, withheld=WHY)
    pin(folder, made.identity.name)
    assert resolved(folder) == (2, 1)
    unpin(folder)
    assert resolved(folder) == (1, 1)


def test_withheld_publications_displace_no_others(folder: PipelineFolder) -> None:
    make(folder, (1, 1))
    for attempt in range(2, 6):
        retain(folder, 1, publish(folder, attempt, FILES, {}, withheld=WHY))
    assert resolved(folder) == (1, 1)


@pytest.mark.parametrize("step", range(1, 12))
def test_law_no_crash_leads_readers_to_a_withheld_publication(
    folder: PipelineFolder, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(folder, (1, 1))
    watch_steps(monkeypatch, step)
    with suppress(Crash):
        publish(folder, 2, FILES, {}, withheld=WHY)
    assert resolved(folder) == (1, 1)
