"""Starts a redo from the latest cut before the first changed stage."""

from __future__ import annotations

from collections.abc import Callable

from strandline.ledger.records.entries import FinishedEntry, SourceRecord
from strandline.ledger.store.store import Store
from strandline.plan.pipeline import PipelinePlan
from strandline.plan.receipt import Output
from strandline.plan.stages.stage import Stage
from strandline.run.revise.cuts.files import choose_missing, prune_cuts
from strandline.run.revise.cuts.rows import ReadCut
from strandline.run.revise.starts.start import DueSource, Start
from strandline.storage.outputs.names import CUTS
from strandline.storage.outputs.remote import find_files


class LatestCut:
    """Reads the cut of the latest unchanged stage that has a cut."""

    reads_cut = True

    def find(self, due: DueSource) -> Start | None:
        """Return the start after the latest unchanged stage with a cut."""
        unchanged = due.changes.list_unchanged(due.entry.attempt)
        cuts = {output.cut[0] for output in due.record.outputs if output.cut}
        after = next((stage for stage in reversed(unchanged) if stage in cuts), None)
        return None if after is None else Start(after)

    def describe(self, start: Start) -> str:
        return f"from the output of {start.after!r}"

    def open_reader(self, _plan: PipelinePlan, _start: Start, /) -> Stage:
        return ReadCut()

    def list_files(self, start: Start, record: SourceRecord, /) -> list[Output]:
        """Return the files of the cut, in the order of their slots."""
        cut = [
            (output.cut[1], output)
            for output in record.outputs
            if output.cut and output.cut[0] == start.after
        ]
        return [output for _, output in sorted(cut)]

    def note_missing(
        self,
        store: Store,
        location: str,
        _starts_here: Callable[[bytes, FinishedEntry, SourceRecord], bool],
        /,
    ) -> None:
        """Drop cuts with missing files.

        Otherwise, many missing files, such as a removed folder, would make the stage that reads
        them look broken.
        """
        prune_cuts(store, choose_missing(find_files(location, CUTS)), lambda: None)
