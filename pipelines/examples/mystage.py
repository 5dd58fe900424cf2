"""Example of a user's own stage, which YAML names as `use: mystage:KeepShort`."""

import pyarrow.compute as pc
from pydantic import Field

from strandline import Stage, Task


class KeepShort(Stage):
    """Keeps the functions that fit on a screen."""

    class Params(Stage.Params):
        """The `with:` block, which is checked before the run starts."""

        max_lines: int = Field(default=40, ge=1, description="Most lines of a function.")

    params: Params

    def process(self, task: Task) -> Task | None:
        """Drop the rows with more lines. Return None if no row remains."""
        lines = pc.add(pc.count_substring(task.table["source"], "\n"), 1)
        kept = task.table.filter(pc.less_equal(lines, self.params.max_lines))
        return task.replace(kept) if kept.num_rows else None
