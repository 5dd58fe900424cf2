"""Runs a pipeline repeatedly with different stages over files of numbers, one number per row."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pipeline_runs import Passes
from strandline_api.outcome.exit_codes import ExitCode

Item = dict[str, Any]


class NumberRuns:
    """Runs of one pipeline, and its input files.

    Args:
        folder: an empty folder.
        name: name of the pipeline.
        files, rows: number of files, and of rows per file. Numbers continue from file to file.

    Attributes:
        reader: the first stage.
    """

    def __init__(self, folder: Path, name: str, files: int, rows: int) -> None:
        self.name = name
        self.reader: Item = {"use": "read-jsonl"}
        self.passes = Passes(folder)
        self.texts = folder / "in"
        self.texts.mkdir()
        for number in range(files):
            self.write(number, range(number * rows, (number + 1) * rows))

    def write(self, file: int, numbers: Iterable[int | float]) -> None:
        lines = [json.dumps({"n": number}) + "\n" for number in numbers]
        (self.texts / f"{file}.jsonl").write_text("".join(lines))

    def run(self, *stages: Item, name: str | None = None, **options: Any) -> ExitCode:
        """Run the reader and these stages.

        Args:
            name: a name to use instead of the pipeline's own.
            options: options of `Passes.run`; `listing` has parameters of the source.
        """
        options = {"sink": {"use": "parquet"}, **options}
        source: Item = {"use": "files", "with": {"paths": [f"{self.texts}/*.jsonl"]}}
        source["with"] |= options.pop("listing", {})
        middle = [self.reader, *stages]
        self.outcome = self.passes.run(name or self.name, source=source, stages=middle, **options)
        return self.outcome.code

    @property
    def output(self) -> Path:
        return self.passes.find_output(self.name)
