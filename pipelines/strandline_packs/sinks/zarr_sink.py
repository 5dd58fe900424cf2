"""The sink `zarr`: writes xarray datasets. xarray and zarr (extra `fields`) load on first use."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from typing import Any, BinaryIO, ClassVar

from pydantic import Field

from strandline.plan.packages import load_module
from strandline.plan.stages.ends import SinkStage, Source
from strandline.plan.task import Task
from strandline_packs.sinks.jsonl_sink import SinkParams


class ZarrSink(SinkStage):
    """Writes xarray datasets as zipped Zarr stores. The sources of a chunk share a store."""

    class Params(SinkParams):
        """Configures the dimension and the size of chunks."""

        dimension: str = Field(
            default="time",
            min_length=1,
            description="The dimension along which sources are arranged. Each source's `meta` has "
            "its position, a whole number, under this name.",
        )
        chunk: int = Field(ge=1, description="Number of positions of that dimension in one chunk.")

    params: Params
    suffix: str = ".zarr.zip"
    packages: ClassVar[tuple[str, ...]] = ("xarray", "zarr")
    chunked_by: ClassVar[str | None] = "chunk"

    def setup(self) -> None:
        """Import the Zarr writer.

        Raises:
            ImportError: the extra is not installed.
        """
        for module in ("xarray", "zarr"):
            load_module(module)

    def partition_indices(self, source: Source) -> Iterable[str]:
        """Return the chunk that contains the source's position.

        Raises:
            TypeError: the source has no position.
        """
        return [f"chunk {self._find_position(source) // self.params.chunk}"]

    def name_position(self, source: Source) -> str:
        """Return the source's position along the dimension.

        Every position occupies one field of a store.

        Raises:
            TypeError: the source has no position.
        """
        return f"{self.params.dimension} {self._find_position(source)}"

    def _find_position(self, source: Source) -> int:
        position = (source.meta or {}).get(self.params.dimension)
        if not isinstance(position, int):
            msg = f"its meta has no whole number under {self.params.dimension!r}"
            raise TypeError(msg)
        return position

    def write(self, task: Task, file: BinaryIO) -> None:
        """Write the dataset as one store with sorted entries and without timestamps.

        Raises:
            TypeError: the task has no dataset.
        """
        entries = self._encode(task.data)
        with zipfile.ZipFile(file, "w") as archive:
            for name in sorted(entries):
                # `ZipInfo` has a fixed date, so equal datasets give equal bytes.
                archive.writestr(zipfile.ZipInfo(name), entries[name].to_bytes())

    def _encode(self, dataset: object) -> dict[str, Any]:
        """Encode a dataset as the entries of a Zarr store.

        Chunks span all dimensions completely, except the dimension of the parameters.
        """
        import xarray  # noqa: PLC0415 - see `setup`
        from zarr.storage import MemoryStore  # noqa: PLC0415 - the same

        if not isinstance(dataset, xarray.Dataset):
            msg = f"this task carries {type(dataset).__name__}, not an xarray dataset"
            raise TypeError(msg)
        lengths = dict(dataset.sizes) | {self.params.dimension: self.params.chunk}
        encoding = {
            name: {"chunks": tuple(lengths[str(each)] for each in variable.dims)}
            for name, variable in dataset.variables.items()
            if variable.dims  # a scalar has no chunks
        }
        entries: dict[str, Any] = {}
        dataset.to_zarr(
            MemoryStore(entries), mode="w", encoding=encoding, zarr_format=3, consolidated=False
        )
        return entries
