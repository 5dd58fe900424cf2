"""What every sink's parameters have in common."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field

from strandline.plan.stage import Stage


class SinkParams(Stage.Params):
    """Where the output goes."""

    path: str | None = Field(
        default=None,
        min_length=1,
        description="Folder or fsspec URL of the output; by default the pipeline's own output "
        "folder in the volume.",
    )

    def list_places(self) -> Iterable[tuple[str, str]]:
        """The output, where it is said."""
        return () if self.path is None else [("path", self.path)]
