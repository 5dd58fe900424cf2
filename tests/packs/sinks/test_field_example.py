"""The example on fields: its wave is the published one, and its chunks restore it completely."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from zarr.storage import ZipStore

from strandline.plan.task import Task
from strandline.run.attempt.attempt import run_attempt
from strandline.run.attempt.config import AttemptConfig
from strandline.run.manifest.manifest import read_manifest

EXAMPLES = Path(__file__).parents[3] / "pipelines" / "examples"


@pytest.fixture
def waves(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module("waves")


def read_outputs(root: Path) -> xr.Dataset:
    stores = (ZipStore(path, mode="r") for path in root.rglob("*.zarr.zip"))
    parts = [xr.open_zarr(store, chunks=None, consolidated=False) for store in stores]
    fields: xr.Dataset = xr.concat(parts, "time").sortby("time")
    return fields.load()


def test_the_chunks_together_are_the_fields_of_all_steps(waves: Any, tmp_path: Path) -> None:
    plan = read_manifest(EXAMPLES / "fields.yaml").plan
    outcome = run_attempt(AttemptConfig(plan, tmp_path, engine="inline"))
    assert outcome.standing.finished == 5
    stages: list[Any] = [stage.stage for stage in plan.stages]
    fields = stages[0].process(Task([6.0 * step for step in range(44)]))
    xr.testing.assert_identical(read_outputs(Path(outcome.output)), stages[1].process(fields).data)


def test_the_wave_is_the_published_one(waves: Any) -> None:
    fields = waves.RossbyHaurwitzWave(latitudes=180).process(Task([0.0])).data.isel(time=0)
    assert float(fields["height"].min()) == pytest.approx(8000, abs=1)  # as in the paper's figure
    assert float(fields["height"].max()) == pytest.approx(10_550, abs=25)
    assert float(abs(fields["east"]).max()) == pytest.approx(99.6, abs=0.5)
    cosine = np.cos(np.deg2rad(fields["latitude"]))
    gathered = fields["east"].differentiate("longitude")
    let_go = -(fields["north"] * cosine).differentiate("latitude")
    inner = {"latitude": slice(10, -10), "longitude": slice(1, -1)}
    left = abs(gathered - let_go).isel(inner).max()
    assert float(left) < 1e-3 * float(abs(gathered).max())  # no air accumulates anywhere


def test_the_wave_travels_east_and_keeps_its_shape(waves: Any) -> None:
    stage = waves.RossbyHaurwitzWave(latitudes=36)
    drift = (4 * 7 * waves.RATE - 2 * waves.SPIN) / 30  # wave speed in 1/s
    hours = np.deg2rad(5) / drift / 3600  # time to advance by one cell
    before, after = (stage.process(Task([time])).data.isel(time=0) for time in (0.0, hours))
    for name in ("east", "north", "height"):
        moved = before[name].roll(longitude=1, roll_coords=False)
        np.testing.assert_allclose(after[name], moved, rtol=1e-4, atol=1e-2)


def test_an_anomaly_has_no_mean_along_a_latitude(waves: Any) -> None:
    fields = waves.Anomaly().process(waves.RossbyHaurwitzWave().process(Task([0.0, 6.0]))).data
    assert float(abs(fields["anomaly"].mean("longitude")).max()) < 1e-2
    assert float(fields["anomaly"].max()) > 500
