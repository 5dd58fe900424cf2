"""Stages for PDF documents."""

from __future__ import annotations

from strandline.plan.stages.packs import Dependency, Pack

PACK = Pack(
    stages={
        "join-pages": "strandline_packs.pdf.join_pages:JoinPages",
        "ocr-pages": "strandline_packs.pdf.ocr_pages:OcrPages",
        "read-pdf": "strandline_packs.pdf.read_pdf:ReadPdf",
    },
    packages=(
        Dependency(module="pdfplumber", name="pdfplumber", install="strandline[pdf]"),
        Dependency(module="pypdfium2", name="pypdfium2", install="strandline[pdf]"),
        Dependency(module="rapidocr", name="rapidocr", install="strandline[ocr]"),
    ),
    page="docs/pdf.md",
)
