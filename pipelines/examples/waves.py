"""Stages of `fields.yaml`: compute a planetary wave as winds and heights on a grid."""

from collections.abc import Iterator

import numpy as np
import xarray as xr
from pydantic import Field

from strandline import Source, SourceStage, Stage, Task

HOUR = 3600.0
RADIUS, SPIN, GRAVITY = 6.37122e6, 7.292e-5, 9.80616  # of the Earth: m, 1/s, m/s²
WAVES, RATE, DEPTH = 4, 7.848e-6, 8000.0  # wave number, 1/s, m


class WaveSteps(SourceStage):
    """Lists time steps. Each step is a source, and its data is its time."""

    class Params(SourceStage.Params):
        """Configures the number of steps, and the interval between two steps."""

        steps: int = Field(default=40, ge=1, description="Number of steps.")
        hours: float = Field(default=6, gt=0, description="Hours from one to the next.")

    params: Params
    # More steps are more sources, and change nothing of those that are there.
    not_fingerprinted = SourceStage.not_fingerprinted | {"steps"}

    def list_sources(self) -> Iterator[Source]:
        """Yield every step, with its time in hours as data."""
        for step in range(self.params.steps):
            hour = step * self.params.hours
            yield Source(f"hour {hour:06.1f}", "1", hour, meta={"time": step})


class RossbyHaurwitzWave(Stage):
    """The wave at a group's hours: an exact solution that travels east and keeps its shape.

    It is test case 6 of Williamson et al., A Standard Test Set for Numerical Approximations to
    the Shallow Water Equations in Spherical Geometry (1992).
    """

    class Params(Stage.Params):
        """Configures the grid."""

        latitudes: int = Field(default=36, ge=2, description="Cells from pole to pole.")

    params: Params

    def process(self, task: Task) -> Task:
        """Return winds in m/s and heights in m over time, latitude, and longitude."""
        cells = self.params.latitudes
        axes = {
            "time": np.asarray(task.data, dtype=float),
            "latitude": (np.arange(cells) + 0.5) * 180 / cells - 90,
            "longitude": (np.arange(2 * cells) + 0.5) * 180 / cells,
        }
        fields = compute_fields(*(xr.DataArray(axis, dims=name) for name, axis in axes.items()))
        return task.replace(xr.Dataset(fields, coords=axes).astype("float32"))


class Anomaly(Stage):
    """Adds the difference between the height and its mean along the latitude."""

    def process(self, task: Task) -> Task:
        """Return the dataset with `anomaly`."""
        height = task.data["height"]
        mean = height.mean("longitude", dtype=float)  # float64: additions in any order agree
        return task.replace(task.data.assign(anomaly=(height - mean).astype(height.dtype)))


def compute_fields(
    hours: xr.DataArray, latitude: xr.DataArray, longitude: xr.DataArray
) -> dict[str, xr.DataArray]:
    """Compute the fields at hours and degrees."""
    r, drift = WAVES, (WAVES * (3 + WAVES) * RATE - 2 * SPIN) / ((1 + WAVES) * (2 + WAVES))
    phase = r * (np.deg2rad(longitude) - drift * HOUR * hours)
    c, s = np.cos(np.deg2rad(latitude)), np.sin(np.deg2rad(latitude))
    east = c + c ** (r - 1) * (r * s**2 - c**2) * np.cos(phase)
    north = -r * c ** (r - 1) * s * np.sin(phase)
    mean = RATE / 2 * (2 * SPIN + RATE) * c**2 + RATE**2 / 4 * (
        (r + 1) * c ** (2 * r + 2) + (2 * r**2 - r - 2) * c ** (2 * r) - 2 * r**2 * c ** (2 * r - 2)
    )
    first = 2 * (SPIN + RATE) * RATE / ((r + 1) * (r + 2)) * c**r
    first = first * ((r**2 + 2 * r + 2) - (r + 1) ** 2 * c**2)
    second = RATE**2 / 4 * c ** (2 * r) * ((r + 1) * c**2 - (r + 2))
    potential = mean + first * np.cos(phase) + second * np.cos(2 * phase)
    return {
        "east": (RADIUS * RATE * east).transpose("time", "latitude", "longitude"),
        "north": (RADIUS * RATE * north).transpose("time", "latitude", "longitude"),
        "height": (DEPTH + RADIUS**2 * potential / GRAVITY).transpose(
            "time", "latitude", "longitude"
        ),
    }
