"""The stages that come with Strandline, one file each.

A stage knows tasks and its parameters; it must not know the ledger, the engine or the run. Their
classes are public here, and each is loaded when it is first used: a worker needs one of them.
"""

from typing import TYPE_CHECKING

from strandline.lazy_names import load_lazily

if TYPE_CHECKING:
    from strandline.stages.count_languages import CountLanguages
    from strandline.stages.count_tokens import CountTokens
    from strandline.stages.decode_images import DecodeImages
    from strandline.stages.decode_python import DecodePython
    from strandline.stages.drop_duplicates import DropDuplicates
    from strandline.stages.drop_generated_code import DropGeneratedCode
    from strandline.stages.drop_listed import DropListed
    from strandline.stages.extract_functions import ExtractFunctions
    from strandline.stages.files import Files
    from strandline.stages.filter_code_quality import FilterCodeQuality
    from strandline.stages.filter_text_quality import FilterTextQuality
    from strandline.stages.identify_language import IdentifyLanguage
    from strandline.stages.jsonl_sink import JsonlSink
    from strandline.stages.jsonl_source import JsonlFiles
    from strandline.stages.keep_documented import KeepDocumented
    from strandline.stages.measure_fields import MeasureFields
    from strandline.stages.measure_images import MeasureImages
    from strandline.stages.normalise_text import NormaliseText
    from strandline.stages.parquet_partitions import ParquetPartitions
    from strandline.stages.parquet_sink import ParquetSink
    from strandline.stages.parquet_source import ParquetRowGroups
    from strandline.stages.parse_documents import ParseDocuments
    from strandline.stages.read_files import ReadFiles
    from strandline.stages.read_jsonl import ReadJsonl
    from strandline.stages.read_parquet import ReadParquet
    from strandline.stages.redact_pii import RedactPii
    from strandline.stages.redact_secrets import RedactSecrets
    from strandline.stages.resize_images import ResizeImages
    from strandline.stages.select_columns import SelectColumns
    from strandline.stages.sketch_texts import SketchTexts
    from strandline.stages.zarr_sink import ZarrSink

__all__ = [
    "CountLanguages",
    "CountTokens",
    "DecodeImages",
    "DecodePython",
    "DropDuplicates",
    "DropGeneratedCode",
    "DropListed",
    "ExtractFunctions",
    "Files",
    "FilterCodeQuality",
    "FilterTextQuality",
    "IdentifyLanguage",
    "JsonlFiles",
    "JsonlSink",
    "KeepDocumented",
    "MeasureFields",
    "MeasureImages",
    "NormaliseText",
    "ParquetPartitions",
    "ParquetRowGroups",
    "ParquetSink",
    "ParseDocuments",
    "ReadFiles",
    "ReadJsonl",
    "ReadParquet",
    "RedactPii",
    "RedactSecrets",
    "ResizeImages",
    "SelectColumns",
    "SketchTexts",
    "ZarrSink",
]

_ROOMS = {
    "CountLanguages": "strandline.stages.count_languages",
    "CountTokens": "strandline.stages.count_tokens",
    "DecodeImages": "strandline.stages.decode_images",
    "DecodePython": "strandline.stages.decode_python",
    "DropDuplicates": "strandline.stages.drop_duplicates",
    "DropGeneratedCode": "strandline.stages.drop_generated_code",
    "DropListed": "strandline.stages.drop_listed",
    "ExtractFunctions": "strandline.stages.extract_functions",
    "Files": "strandline.stages.files",
    "FilterCodeQuality": "strandline.stages.filter_code_quality",
    "FilterTextQuality": "strandline.stages.filter_text_quality",
    "IdentifyLanguage": "strandline.stages.identify_language",
    "JsonlFiles": "strandline.stages.jsonl_source",
    "JsonlSink": "strandline.stages.jsonl_sink",
    "KeepDocumented": "strandline.stages.keep_documented",
    "MeasureFields": "strandline.stages.measure_fields",
    "MeasureImages": "strandline.stages.measure_images",
    "NormaliseText": "strandline.stages.normalise_text",
    "ParquetPartitions": "strandline.stages.parquet_partitions",
    "ParquetRowGroups": "strandline.stages.parquet_source",
    "ParquetSink": "strandline.stages.parquet_sink",
    "ParseDocuments": "strandline.stages.parse_documents",
    "ReadFiles": "strandline.stages.read_files",
    "ReadJsonl": "strandline.stages.read_jsonl",
    "ReadParquet": "strandline.stages.read_parquet",
    "RedactPii": "strandline.stages.redact_pii",
    "RedactSecrets": "strandline.stages.redact_secrets",
    "ResizeImages": "strandline.stages.resize_images",
    "SelectColumns": "strandline.stages.select_columns",
    "SketchTexts": "strandline.stages.sketch_texts",
    "ZarrSink": "strandline.stages.zarr_sink",
}

__getattr__, __dir__ = load_lazily(globals(), _ROOMS)
