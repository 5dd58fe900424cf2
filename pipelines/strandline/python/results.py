"""Results of pipelines, for programs and notebooks: what the commands of the same names print.

The modules of the command line are loaded only when a result is read.
"""

from __future__ import annotations

import os
import time
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from strandline.plan.pipeline import PipelinePlan
from strandline.storage.layout import PipelineFolder, require_folder
from strandline_api.objects.pipeline import ObjectMeta

if TYPE_CHECKING:
    from strandline.ledger.checks.verification import VerificationResult

Volume = str | os.PathLike[str]


class PipelineResults:
    """Reads what a pipeline's runs have left on a volume.

    All methods take the checkpoint path of the runs, and raise a LedgerError if there was no run.
    """

    plan: PipelinePlan
    _metadata: ObjectMeta

    def verify(self, checkpoint_path: Volume, *, reads_bytes: bool = True) -> VerificationResult:
        """Check that output and ledger agree; `problems` is empty if they do.

        Args:
            reads_bytes: compare the contents of files, not only their sizes.
        """
        from strandline.cli.commands.data.ledgers.verify import verify_output  # noqa: PLC0415

        return verify_output(self.plan, Path(checkpoint_path), reads_bytes=reads_bytes)[0]

    def failures(self, checkpoint_path: Volume) -> list[dict[str, Any]]:
        """Return why sources and rows failed: an object for each reason, as `--json` prints."""
        from strandline.cli.commands.runs.failures import read_failures  # noqa: PLC0415

        return read_failures(self._find_folder(checkpoint_path)).render()

    def dropped(self, checkpoint_path: Volume, examples: int = 20) -> list[dict[str, object]]:
        """Return the rows that stages marked: an object for each reason, with some examples."""
        from strandline.cli.commands.data.dropped import (  # noqa: PLC0415
            read_dropped,
            render_dropped,
        )

        return render_dropped(read_dropped(self.plan, Path(checkpoint_path), examples))

    def report(self, checkpoint_path: Volume, out: Volume = "report.html") -> Path:
        """Write a page that shows the runs, and return its path."""
        from strandline.cli.report.page import render_page  # noqa: PLC0415
        from strandline.cli.report.reading import read_facts  # noqa: PLC0415

        folder = self._find_folder(checkpoint_path)
        facts = read_facts(self.plan, folder, time.time(), [str(folder.path)], [])
        path = Path(out)
        path.write_bytes(render_page(facts).encode("utf-8", "replace"))
        return path

    def card(
        self, checkpoint_path: Volume, *, title: str | None = None, license_id: str | None = None
    ) -> str:
        """Return the data set's card in Markdown.

        Args:
            title: name of the data set; by default the pipeline's name.
            license_id: license of the data set, such as `cc-by-4.0`.
        """
        from strandline.cli.card.card import render_card  # noqa: PLC0415
        from strandline.cli.card.naming import choose_license, find_title  # noqa: PLC0415
        from strandline.cli.card.reading import read_card  # noqa: PLC0415

        folder, chosen = (
            self._find_folder(checkpoint_path),
            choose_license(self._metadata, license_id),
        )
        named = title or find_title(self._metadata)
        return render_card(read_card(self.plan, folder, time.time(), named, chosen))

    def top(self, checkpoint_path: Volume) -> str:
        """Return the current state of a run, which may be in another process."""
        from rich.console import Console  # noqa: PLC0415

        from strandline.cli.commands.runs.top import WIDTH, look_at_volume  # noqa: PLC0415
        from strandline.cli.views.running.top import RecentFailures, draw_top  # noqa: PLC0415

        name, folder = f"{self.plan.namespace}/{self.plan.name}", self._find_folder(checkpoint_path)
        console = Console(width=WIDTH, file=StringIO())
        with console.capture() as captured:
            facts = look_at_volume(name, folder, RecentFailures(), time.time())
            console.print(draw_top(facts), highlight=False)
        return captured.get()

    def _find_folder(self, checkpoint_path: Volume) -> PipelineFolder:
        volume = require_folder(checkpoint_path)
        return PipelineFolder.on_volume(volume, self.plan.namespace, self.plan.name)
