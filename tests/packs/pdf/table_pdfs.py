"""PDF files with tables of known content, written with reportlab."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from reportlab.lib.colors import black
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.platypus import Paragraph, SimpleDocTemplate, Table

Rows = Sequence[Sequence[object]]
TABLE = (("Month", "Ships", "Storms"), ("January", "12", "7"), ("April", "31", "2"))
MARKDOWN = """\
| Month | Ships | Storms |
| --- | --- | --- |
| January | 12 | 7 |
| April | 31 | 2 |"""


def write(text: str) -> Paragraph:
    return Paragraph(text, getSampleStyleSheet()["Normal"])


def rule(
    rows: Rows, *commands: object, lines: str = "GRID", widths: Any = 90, **more: Any
) -> Table:
    """Return a table with all rules (`GRID`), inner rules (`INNERGRID`), or a frame (`BOX`)."""
    style = [(lines, (0, 0), (-1, -1), 0.5, black), *commands]
    return Table(rows, colWidths=widths, style=style, **more)


def build_pdf(*parts: Any) -> bytes:
    file = io.BytesIO()
    SimpleDocTemplate(file, invariant=1).build(list(parts))
    return file.getvalue()
