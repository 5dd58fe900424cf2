"""The stages that come with Strandline, known by name once this is imported.

Whoever reads names needs all of them; a worker needs one, and imports no more.
"""

import strandline.stages.text.filters.adapters.data_juicer_ops
import strandline.stages.text.filters.adapters.datatrove_steps  # noqa: F401 - register themselves
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
from strandline.stages.dedup.corpus import (
    cluster_duplicates,
    digest_rows,
    link_duplicates,
    list_kept,
    paragraphs,
    sentences,
    sign_texts,
)
from strandline.stages.dedup.seen import drop_seen, fill_bloom
from strandline.stages.images import decode_images, measure_images, resize_images
from strandline.stages.models import caption_frames, embed_frames
from strandline.stages.sinks import (
    jsonl_sink,
    parquet_partitions,
    row_sinks,
    shuffle_sink,
    token_shards,
    webdataset_sink,
    zarr_sink,
)
from strandline.stages.sources import (
    dataset_folder,
    files,
    jsonl_source,
    parquet_source,
    shuffle_source,
    warc_source,
)
from strandline.stages.tables import (
    measure_fields,
    read_files,
    read_jsonl,
    read_parquet,
    read_shuffle,
    read_webdataset,
    select_columns,
)
from strandline.stages.tables.rows import keep_rows, read_arrow, read_csv
from strandline.stages.text import (
    count_tokens,
    filter_text_quality,
    normalise_text,
    parse_documents,
    redact_pii,
    repair_text,
    tokenise_text,
)
from strandline.stages.text.filters import (
    c4_quality,
    drop_listed_words,
    fineweb_quality,
    gopher_quality,
    gopher_repetition,
)
from strandline.stages.text.scoring import (
    classify_text,
    identify_language,
    score_perplexity,
    score_text,
)
from strandline.stages.video import (
    decode_frames,
    filter_video,
    hash_video,
    measure_motion,
    measure_video,
    split_video,
    transcode_clip,
)
from strandline.stages.web import extract_text, filter_urls, read_warc

__all__ = [
    "c4_quality",
    "caption_frames",
    "classify_text",
    "cluster_duplicates",
    "count_languages",
    "count_tokens",
    "dataset_folder",
    "decode_frames",
    "decode_images",
    "decode_python",
    "digest_rows",
    "drop_contaminated",
    "drop_duplicates",
    "drop_generated_code",
    "drop_listed",
    "drop_listed_words",
    "drop_seen",
    "embed_frames",
    "extract_functions",
    "extract_text",
    "files",
    "fill_bloom",
    "filter_code_quality",
    "filter_text_quality",
    "filter_urls",
    "filter_video",
    "fineweb_quality",
    "gopher_quality",
    "gopher_repetition",
    "hash_video",
    "identify_language",
    "jsonl_sink",
    "jsonl_source",
    "keep_documented",
    "keep_rows",
    "link_duplicates",
    "list_kept",
    "measure_fields",
    "measure_images",
    "measure_motion",
    "measure_video",
    "normalise_text",
    "paragraphs",
    "parquet_partitions",
    "parquet_source",
    "parse_documents",
    "read_arrow",
    "read_csv",
    "read_files",
    "read_jsonl",
    "read_parquet",
    "read_shuffle",
    "read_warc",
    "read_webdataset",
    "redact_pii",
    "redact_secrets",
    "repair_text",
    "resize_images",
    "row_sinks",
    "score_perplexity",
    "score_text",
    "select_columns",
    "sentences",
    "shuffle_sink",
    "shuffle_source",
    "sign_texts",
    "sketch_texts",
    "split_video",
    "token_shards",
    "tokenise_text",
    "transcode_clip",
    "warc_source",
    "webdataset_sink",
    "zarr_sink",
]
