"""The stages that come with Strandline, known by name once this is imported.

Whoever reads names needs all of them; a worker needs one, and imports no more.
"""

import strandline.stages.adapters.datatrove_steps  # noqa: F401 - registers its adapter
from strandline.stages.code import (
    count_languages,
    decode_python,
    drop_generated_code,
    extract_functions,
    filter_code_quality,
    keep_documented,
    redact_secrets,
)
from strandline.stages.dedup import drop_contaminated, drop_duplicates, drop_listed, sketch_texts
from strandline.stages.images import decode_images, measure_images, resize_images
from strandline.stages.sinks import jsonl_sink, parquet_partitions, zarr_sink
from strandline.stages.sources import files, jsonl_source, parquet_source
from strandline.stages.tables import measure_fields, read_files, read_parquet, select_columns
from strandline.stages.text import (
    count_tokens,
    filter_text_quality,
    identify_language,
    normalise_text,
    parse_documents,
    read_jsonl,
    redact_pii,
)
from strandline.stages.text.filters import (
    c4_quality,
    fineweb_quality,
    gopher_quality,
    gopher_repetition,
)

__all__ = [
    "c4_quality",
    "count_languages",
    "count_tokens",
    "decode_images",
    "decode_python",
    "drop_contaminated",
    "drop_duplicates",
    "drop_generated_code",
    "drop_listed",
    "extract_functions",
    "files",
    "filter_code_quality",
    "filter_text_quality",
    "fineweb_quality",
    "gopher_quality",
    "gopher_repetition",
    "identify_language",
    "jsonl_sink",
    "jsonl_source",
    "keep_documented",
    "measure_fields",
    "measure_images",
    "normalise_text",
    "parquet_partitions",
    "parquet_source",
    "parse_documents",
    "read_files",
    "read_jsonl",
    "read_parquet",
    "redact_pii",
    "redact_secrets",
    "resize_images",
    "select_columns",
    "sketch_texts",
    "zarr_sink",
]
