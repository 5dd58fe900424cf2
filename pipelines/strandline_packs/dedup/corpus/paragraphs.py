"""The stages `split-paragraphs` and `join-paragraphs`: split documents into lines, and join lines.

Between the two stages each line is a row, so that lines that are duplicates in the corpus can be
dropped. The key of a line consists of the document's key and the line number, so other documents do
not affect the key.
"""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa

from strandline.data.tables.columns import find_column, list_strings, list_texts, set_column
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.dedup.keyed_texts import KeyedTextParams

DOCUMENT = "document"


class SplitParagraphs(Stage):
    """Makes a row of each line of a text, including blank lines.

    The column `document` keeps the original key.
    """

    class Params(KeyedTextParams):
        """Names the columns with the text and the key."""

    params: Params
    keeps_columns = True
    adds_columns = (DOCUMENT,)

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.key, self.params.column)

    def process(self, task: Task) -> Task:
        """Return a copy of the row for each line, and append `#` and the line number to its key.

        Raises:
            MissingColumnError: a column is missing.
            TypeError: the text column has no text, or keys have an unsupported type.
        """
        keys = list_texts(task.table, self.params.key)
        lines = [text.split("\n") for text in list_strings(task.table, self.params.column)]
        rows = [row for row, parts in enumerate(lines) for _ in parts]
        names = [f"{keys[row]}#{at}" for row, parts in enumerate(lines) for at in range(len(parts))]
        table = task.table.take(pa.array(rows, pa.int64()))
        table = set_column(table, DOCUMENT, [keys[row] for row in rows], pa.string())
        table = set_column(table, self.params.key, names, pa.string())
        flat = [line for parts in lines for line in parts]
        return task.replace(set_column(table, self.params.column, flat, pa.string()))


class JoinParagraphs(Stage):
    """Joins the remaining lines of each document. Documents without remaining lines are dropped."""

    class Params(KeyedTextParams):
        """Names the columns with the text and the key."""

    scope = "partition"
    params: Params
    keeps_columns = True
    mixes_rows = True

    def list_needed_columns(self) -> tuple[str, ...]:
        return (DOCUMENT, self.params.key, self.params.column)

    def process(self, task: Task) -> Task | None:
        """Join the rows of each document into one row. These rows are adjacent.

        Raises:
            MissingColumnError: a column is missing.
            TypeError: a column has no text.
        """
        # Check only: `set_column` would silently add a missing column.
        find_column(task.table, self.params.key)
        documents = list_strings(task.table, DOCUMENT)
        texts = list_strings(task.table, self.params.column)
        firsts = [at for at, name in enumerate(documents) if at == 0 or name != documents[at - 1]]
        borders = pairwise([*firsts, len(documents)])
        joined = ["\n".join(texts[start:end]) for start, end in borders]
        table = task.table.take(pa.array(firsts, pa.int64()))
        names = [documents[at] for at in firsts]
        table = set_column(table, self.params.key, names, pa.string())
        table = set_column(table, self.params.column, joined, pa.string())
        is_left = [bool(text.strip()) for text in joined]
        if not all(is_left):
            self.count("dropped: nothing left", is_left.count(False))
        left = table.filter(pa.array(is_left, pa.bool_()))
        return task.replace(left) if left.num_rows else None
