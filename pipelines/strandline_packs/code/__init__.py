"""Stages for source code."""

from __future__ import annotations

from strandline.plan.stages.packs import Pack

PACK = Pack(
    stages={
        "count-languages": "strandline_packs.code.count_languages:CountLanguages",
        "decode-python": "strandline_packs.code.decode_python:DecodePython",
        "drop-generated-code": "strandline_packs.code.drop_generated_code:DropGeneratedCode",
        "extract-functions": "strandline_packs.code.extract_functions:ExtractFunctions",
        "fill-middle": "strandline_packs.code.fill_middle:FillMiddle",
        "filter-code-quality": "strandline_packs.code.filter_code_quality:FilterCodeQuality",
        "keep-documented": "strandline_packs.code.keep_documented:KeepDocumented",
        "redact-secrets": "strandline_packs.code.redact_secrets:RedactSecrets",
    },
    page="docs/text-filters.md",
)
