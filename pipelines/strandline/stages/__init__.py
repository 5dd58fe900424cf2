"""The stages that come with Strandline, one file each, known by name once this is imported.

A stage knows tasks and its parameters; it must not know the ledger, the engine or the run.
"""

from strandline.stages import (
    decode_python,
    drop_duplicates,
    drop_generated_code,
    extract_functions,
    files,
    filter_code_quality,
    filter_text_quality,
    identify_language,
    jsonl_sink,
    jsonl_source,
    keep_documented,
    normalise_text,
    parquet_sink,
    parquet_source,
    parse_documents,
    read_files,
    read_jsonl,
    read_parquet,
    redact_pii,
    redact_secrets,
    select_columns,
)

__all__ = [
    "decode_python",
    "drop_duplicates",
    "drop_generated_code",
    "extract_functions",
    "files",
    "filter_code_quality",
    "filter_text_quality",
    "identify_language",
    "jsonl_sink",
    "jsonl_source",
    "keep_documented",
    "normalise_text",
    "parquet_sink",
    "parquet_source",
    "parse_documents",
    "read_files",
    "read_jsonl",
    "read_parquet",
    "redact_pii",
    "redact_secrets",
    "select_columns",
]
