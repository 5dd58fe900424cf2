"""The stage `extract-text`: extracts the main content of HTML pages."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa
from pydantic import Field

from strandline.data.tables.columns import (
    find_column,
    list_strings,
    set_column,
)
from strandline.data.tables.row_filter import JudgedRows, RowFilter
from strandline.plan.stages.columns import Columns
from strandline_packs.web.extraction import ExtractionEngine, ExtractionSettings, Favour
from strandline_packs.web.extractor_process import Extraction, ExtractorProcess

_REPLACED = "\ufffd"


class ExtractText(RowFilter):
    """Replaces the pages in `content` by their main content in `text`. Drops failed pages."""

    class Params(RowFilter.Params):
        """Configures the extraction engine, its settings, and the limits per page."""

        column: str = Field(
            default="content", description="Column with the page: bytes, or text that is decoded."
        )
        charset_column: str = Field(
            default="charset",
            description="Column with the encoding from the HTTP headers; it may be missing.",
        )
        engine: ExtractionEngine = Field(
            default=ExtractionEngine.TRAFILATURA,
            description="`trafilatura`: the most precise. `resiliparse`: several times as fast.",
        )
        favour: Favour = Field(
            default=Favour.PRECISION,
            description="`precision` leaves out possible boilerplate, `recall` keeps it, "
            "`balanced` is in between; for resiliparse, `precision` and `balanced` are "
            "the same.",
        )
        tables: bool = Field(default=True, description="Keep the text of tables.")
        comments: bool = Field(default=False, description="Keep readers' comments.")
        links: bool = Field(default=False, description="Keep the targets of links.")
        deduplicate: bool = Field(
            default=False,
            description="Leave out blocks that occur repeatedly on a page; only for trafilatura. "
            "Repetitions on other pages do not count, so that a page's text depends "
            "only on the page.",
        )
        timeout_seconds: float = Field(
            default=10.0,
            gt=0,
            description="Maximum processor time for a page; pages that take longer are dropped.",
        )
        max_page_bytes: int = Field(
            default=8 << 20,
            ge=1,
            description="Maximum size of a page; larger pages are dropped and counted.",
        )
        max_memory_bytes: int = Field(
            default=512 << 20,
            ge=1 << 26,
            description="Maximum memory for the extraction of a page; pages that need more are "
            "dropped.",
        )
        max_replaced: float = Field(
            default=0.05,
            ge=0,
            le=1,
            description="Maximum share of characters of a text that are U+FFFD, which replaces "
            "undecodable bytes. Dropped pages are counted.",
        )
        keep_content: bool = Field(default=False, description="Keep the column with the page.")

    version = "2"
    params: Params
    changes_rows = True
    added_params: ClassVar[frozenset[str]] = RowFilter.added_params | {
        "max_memory_bytes",
        "max_replaced",
        "reason_column",
    }
    packages: ClassVar[tuple[str, ...]] = ("resiliparse", "trafilatura")
    adds_columns = ("text",)

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.column,)

    def change_columns(self, columns: Columns) -> Columns:
        gone = () if self._is_kept else (self.params.column,)
        return super().change_columns(columns.without(gone))

    def setup(self) -> None:
        """Start the child process that extracts text.

        Raises:
            ExtractorDiedError: the child process could not start, for example because of a missing
                library.
        """
        params = self.params
        settings = ExtractionSettings(
            params.engine,
            params.favour,
            params.tables,
            params.comments,
            params.links,
            params.deduplicate,
        )
        self._process = ExtractorProcess(settings, params.timeout_seconds, params.max_memory_bytes)

    def judge_rows(self, table: pa.Table) -> JudgedRows:
        """Extract the text of every page.

        Raises:
            MissingColumnError: the table has no column with pages.
            ExtractorDiedError: the child process ended for a reason other than the page.
        """
        params = self.params
        pages = find_column(table, params.column).to_pylist()
        has_charset = params.charset_column in table.column_names
        charsets = list_strings(table, params.charset_column) if has_charset else [""] * len(pages)
        found = [
            self._extract(page, charset) for page, charset in zip(pages, charsets, strict=True)
        ]
        kept = table if self._is_kept else table.drop_columns([params.column])
        kept = set_column(kept, "text", [each.text for each in found], pa.string())
        return JudgedRows(kept, [each.problem for each in found])

    @property
    def _is_kept(self) -> bool:
        # If the page is in `text`, the result replaces the page.
        return self.params.keep_content or self.params.column == "text"

    def _extract(self, page: bytes | str | None, charset: str) -> Extraction:
        content = page.encode("utf-8", "replace") if isinstance(page, str) else page or b""
        if len(content) > self.params.max_page_bytes:
            found = Extraction(problem="page too large")
        else:
            # Text is decoded already, so the declared charset no longer applies.
            declared = "utf-8" if isinstance(page, str) else charset
            found = self._process.extract(content, declared)
            found = self._check_replaced(found)
        return found

    def _check_replaced(self, found: Extraction) -> Extraction:
        replaced = found.text.count(_REPLACED)
        if replaced > self.params.max_replaced * len(found.text):
            return Extraction(problem="too many replaced characters")
        if replaced:
            self.count("replaced characters", replaced)
        return found
