"""Stages for web pages: WARC archives, text extraction, and URLs."""

from __future__ import annotations

from strandline.plan.stages.packs import Dependency, Pack

PACK = Pack(
    stages={
        "extract-text": "strandline_packs.web.extract_text:ExtractText",
        "filter-urls": "strandline_packs.web.filter_urls:FilterUrls",
        "read-warc": "strandline_packs.web.warc.read_warc:ReadWarc",
    },
    packages=(
        Dependency(module="resiliparse", name="resiliparse", install="strandline[text]"),
        Dependency(module="trafilatura", name="trafilatura", install="strandline[text]"),
    ),
    page="docs/text.md",
)
