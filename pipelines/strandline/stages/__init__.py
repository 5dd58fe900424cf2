"""The stages that come with Strandline, one file each.

A stage knows tasks and its parameters; it must not know the ledger, the engine or the run. Their
classes are public here, and each is loaded when it is first used: a worker needs one of them.
Made by `make crds` from the files of the stages. Do not edit.
"""

from typing import TYPE_CHECKING

from strandline.lazy_names import load_lazily

if TYPE_CHECKING:
    from strandline.stages.code.count_languages import CountLanguages
    from strandline.stages.code.decode_python import DecodePython
    from strandline.stages.code.drop_generated_code import DropGeneratedCode
    from strandline.stages.code.extract_functions import ExtractFunctions
    from strandline.stages.code.fill_middle import FillMiddle
    from strandline.stages.code.filter_code_quality import FilterCodeQuality
    from strandline.stages.code.keep_documented import KeepDocumented
    from strandline.stages.code.redact_secrets import RedactSecrets
    from strandline.stages.dedup.corpus.cluster_duplicates import ClusterDuplicates
    from strandline.stages.dedup.corpus.digest_rows import DigestRows
    from strandline.stages.dedup.corpus.link_duplicates import LinkDuplicates
    from strandline.stages.dedup.corpus.list_kept import ListKept
    from strandline.stages.dedup.corpus.paragraphs import JoinParagraphs, SplitParagraphs
    from strandline.stages.dedup.corpus.sentences import DigestSentences, DropListedSentences
    from strandline.stages.dedup.corpus.sign_texts import SignTexts
    from strandline.stages.dedup.drop_contaminated import DropContaminated
    from strandline.stages.dedup.drop_duplicates import DropDuplicates
    from strandline.stages.dedup.drop_listed import DropListed
    from strandline.stages.dedup.seen.drop_seen import DropSeen
    from strandline.stages.dedup.seen.fill_bloom import FillBloom
    from strandline.stages.dedup.sketch_texts import SketchTexts
    from strandline.stages.images.decode_images import DecodeImages
    from strandline.stages.images.measure_images import MeasureImages
    from strandline.stages.images.resize_images import ResizeImages
    from strandline.stages.models.asking.ask_model import AskModel
    from strandline.stages.models.caption_frames import CaptionFrames
    from strandline.stages.models.embed_frames import EmbedFrames
    from strandline.stages.models.tokenise_chat import TokeniseChat
    from strandline.stages.sinks.jsonl_sink import JsonlSink
    from strandline.stages.sinks.mds_sink import MdsSink
    from strandline.stages.sinks.parquet_partitions import ParquetPartitions, ParquetSink
    from strandline.stages.sinks.row_sinks import ArrowSink, CsvSink
    from strandline.stages.sinks.tfrecord_sink import TfrecordSink
    from strandline.stages.sinks.token_shards import TokenShards
    from strandline.stages.sinks.webdataset_sink import WebdatasetSink
    from strandline.stages.sinks.zarr_sink import ZarrSink
    from strandline.stages.sources.dataset_folder import DatasetFolder
    from strandline.stages.sources.files import Files
    from strandline.stages.sources.jsonl_source import JsonlFiles
    from strandline.stages.sources.parquet_source import ParquetRowGroups
    from strandline.stages.sources.table_files import TableFiles
    from strandline.stages.sources.warc_source import WarcFiles
    from strandline.stages.tables.measure_fields import MeasureFields
    from strandline.stages.tables.read_files import ReadFiles
    from strandline.stages.tables.read_jsonl import ReadJsonl
    from strandline.stages.tables.read_parquet import ReadParquet
    from strandline.stages.tables.read_webdataset import ReadWebdataset
    from strandline.stages.tables.rows.keep_rows import KeepRows
    from strandline.stages.tables.rows.pack_sequences import PackSequences
    from strandline.stages.tables.rows.read_arrow import ReadArrow
    from strandline.stages.tables.rows.read_csv import ReadCsv
    from strandline.stages.tables.rows.read_table import ReadTable
    from strandline.stages.tables.rows.sample_groups import SampleGroups
    from strandline.stages.tables.rows.sample_rows import SampleRows
    from strandline.stages.tables.select_columns import SelectColumns
    from strandline.stages.tables.shuffle.mix_source import Mix
    from strandline.stages.tables.shuffle.read_mix import ReadMix
    from strandline.stages.tables.shuffle.read_shuffle import ReadShuffle
    from strandline.stages.tables.shuffle.shuffle_sink import ShuffleSink
    from strandline.stages.tables.shuffle.shuffle_source import ShufflePartitions
    from strandline.stages.text.count_tokens import CountTokens
    from strandline.stages.text.filter_text_quality import FilterTextQuality
    from strandline.stages.text.filters.drop_listed_words import DropListedWords
    from strandline.stages.text.filters.presets.c4_quality import C4Quality
    from strandline.stages.text.filters.presets.fineweb_quality import FinewebQuality
    from strandline.stages.text.filters.presets.gopher_quality import GopherQuality
    from strandline.stages.text.filters.presets.gopher_repetition import GopherRepetition
    from strandline.stages.text.normalise_text import NormaliseText
    from strandline.stages.text.parse_documents import ParseDocuments
    from strandline.stages.text.privacy.redact_pii import RedactPii
    from strandline.stages.text.repair_text import RepairText
    from strandline.stages.text.scoring.classify_text import ClassifyText
    from strandline.stages.text.scoring.identify_language import IdentifyLanguage
    from strandline.stages.text.scoring.score_perplexity import ScorePerplexity
    from strandline.stages.text.scoring.score_text import ScoreText
    from strandline.stages.text.tokenise_text import TokeniseText
    from strandline.stages.video.decode_frames import DecodeFrames
    from strandline.stages.video.filter_video import FilterVideo
    from strandline.stages.video.hash_video import HashVideo
    from strandline.stages.video.measure_motion import MeasureMotion
    from strandline.stages.video.measure_video import MeasureVideo
    from strandline.stages.video.split_video import SplitVideo
    from strandline.stages.video.transcode_clip import TranscodeClip
    from strandline.stages.web.extract_text import ExtractText
    from strandline.stages.web.filter_urls import FilterUrls
    from strandline.stages.web.read_warc import ReadWarc

__all__ = [
    "ArrowSink",
    "AskModel",
    "C4Quality",
    "CaptionFrames",
    "ClassifyText",
    "ClusterDuplicates",
    "CountLanguages",
    "CountTokens",
    "CsvSink",
    "DatasetFolder",
    "DecodeFrames",
    "DecodeImages",
    "DecodePython",
    "DigestRows",
    "DigestSentences",
    "DropContaminated",
    "DropDuplicates",
    "DropGeneratedCode",
    "DropListed",
    "DropListedSentences",
    "DropListedWords",
    "DropSeen",
    "EmbedFrames",
    "ExtractFunctions",
    "ExtractText",
    "Files",
    "FillBloom",
    "FillMiddle",
    "FilterCodeQuality",
    "FilterTextQuality",
    "FilterUrls",
    "FilterVideo",
    "FinewebQuality",
    "GopherQuality",
    "GopherRepetition",
    "HashVideo",
    "IdentifyLanguage",
    "JoinParagraphs",
    "JsonlFiles",
    "JsonlSink",
    "KeepDocumented",
    "KeepRows",
    "LinkDuplicates",
    "ListKept",
    "MdsSink",
    "MeasureFields",
    "MeasureImages",
    "MeasureMotion",
    "MeasureVideo",
    "Mix",
    "NormaliseText",
    "PackSequences",
    "ParquetPartitions",
    "ParquetRowGroups",
    "ParquetSink",
    "ParseDocuments",
    "ReadArrow",
    "ReadCsv",
    "ReadFiles",
    "ReadJsonl",
    "ReadMix",
    "ReadParquet",
    "ReadShuffle",
    "ReadTable",
    "ReadWarc",
    "ReadWebdataset",
    "RedactPii",
    "RedactSecrets",
    "RepairText",
    "ResizeImages",
    "SampleGroups",
    "SampleRows",
    "ScorePerplexity",
    "ScoreText",
    "SelectColumns",
    "ShufflePartitions",
    "ShuffleSink",
    "SignTexts",
    "SketchTexts",
    "SplitParagraphs",
    "SplitVideo",
    "TableFiles",
    "TfrecordSink",
    "TokenShards",
    "TokeniseChat",
    "TokeniseText",
    "TranscodeClip",
    "WarcFiles",
    "WebdatasetSink",
    "ZarrSink",
]

_ROOMS = {
    "ArrowSink": "strandline.stages.sinks.row_sinks",
    "AskModel": "strandline.stages.models.asking.ask_model",
    "C4Quality": "strandline.stages.text.filters.presets.c4_quality",
    "CaptionFrames": "strandline.stages.models.caption_frames",
    "ClassifyText": "strandline.stages.text.scoring.classify_text",
    "ClusterDuplicates": "strandline.stages.dedup.corpus.cluster_duplicates",
    "CountLanguages": "strandline.stages.code.count_languages",
    "CountTokens": "strandline.stages.text.count_tokens",
    "CsvSink": "strandline.stages.sinks.row_sinks",
    "DatasetFolder": "strandline.stages.sources.dataset_folder",
    "DecodeFrames": "strandline.stages.video.decode_frames",
    "DecodeImages": "strandline.stages.images.decode_images",
    "DecodePython": "strandline.stages.code.decode_python",
    "DigestRows": "strandline.stages.dedup.corpus.digest_rows",
    "DigestSentences": "strandline.stages.dedup.corpus.sentences",
    "DropContaminated": "strandline.stages.dedup.drop_contaminated",
    "DropDuplicates": "strandline.stages.dedup.drop_duplicates",
    "DropGeneratedCode": "strandline.stages.code.drop_generated_code",
    "DropListed": "strandline.stages.dedup.drop_listed",
    "DropListedSentences": "strandline.stages.dedup.corpus.sentences",
    "DropListedWords": "strandline.stages.text.filters.drop_listed_words",
    "DropSeen": "strandline.stages.dedup.seen.drop_seen",
    "EmbedFrames": "strandline.stages.models.embed_frames",
    "ExtractFunctions": "strandline.stages.code.extract_functions",
    "ExtractText": "strandline.stages.web.extract_text",
    "Files": "strandline.stages.sources.files",
    "FillBloom": "strandline.stages.dedup.seen.fill_bloom",
    "FillMiddle": "strandline.stages.code.fill_middle",
    "FilterCodeQuality": "strandline.stages.code.filter_code_quality",
    "FilterTextQuality": "strandline.stages.text.filter_text_quality",
    "FilterUrls": "strandline.stages.web.filter_urls",
    "FilterVideo": "strandline.stages.video.filter_video",
    "FinewebQuality": "strandline.stages.text.filters.presets.fineweb_quality",
    "GopherQuality": "strandline.stages.text.filters.presets.gopher_quality",
    "GopherRepetition": "strandline.stages.text.filters.presets.gopher_repetition",
    "HashVideo": "strandline.stages.video.hash_video",
    "IdentifyLanguage": "strandline.stages.text.scoring.identify_language",
    "JoinParagraphs": "strandline.stages.dedup.corpus.paragraphs",
    "JsonlFiles": "strandline.stages.sources.jsonl_source",
    "JsonlSink": "strandline.stages.sinks.jsonl_sink",
    "KeepDocumented": "strandline.stages.code.keep_documented",
    "KeepRows": "strandline.stages.tables.rows.keep_rows",
    "LinkDuplicates": "strandline.stages.dedup.corpus.link_duplicates",
    "ListKept": "strandline.stages.dedup.corpus.list_kept",
    "MdsSink": "strandline.stages.sinks.mds_sink",
    "MeasureFields": "strandline.stages.tables.measure_fields",
    "MeasureImages": "strandline.stages.images.measure_images",
    "MeasureMotion": "strandline.stages.video.measure_motion",
    "MeasureVideo": "strandline.stages.video.measure_video",
    "Mix": "strandline.stages.tables.shuffle.mix_source",
    "NormaliseText": "strandline.stages.text.normalise_text",
    "PackSequences": "strandline.stages.tables.rows.pack_sequences",
    "ParquetPartitions": "strandline.stages.sinks.parquet_partitions",
    "ParquetRowGroups": "strandline.stages.sources.parquet_source",
    "ParquetSink": "strandline.stages.sinks.parquet_partitions",
    "ParseDocuments": "strandline.stages.text.parse_documents",
    "ReadArrow": "strandline.stages.tables.rows.read_arrow",
    "ReadCsv": "strandline.stages.tables.rows.read_csv",
    "ReadFiles": "strandline.stages.tables.read_files",
    "ReadJsonl": "strandline.stages.tables.read_jsonl",
    "ReadMix": "strandline.stages.tables.shuffle.read_mix",
    "ReadParquet": "strandline.stages.tables.read_parquet",
    "ReadShuffle": "strandline.stages.tables.shuffle.read_shuffle",
    "ReadTable": "strandline.stages.tables.rows.read_table",
    "ReadWarc": "strandline.stages.web.read_warc",
    "ReadWebdataset": "strandline.stages.tables.read_webdataset",
    "RedactPii": "strandline.stages.text.privacy.redact_pii",
    "RedactSecrets": "strandline.stages.code.redact_secrets",
    "RepairText": "strandline.stages.text.repair_text",
    "ResizeImages": "strandline.stages.images.resize_images",
    "SampleGroups": "strandline.stages.tables.rows.sample_groups",
    "SampleRows": "strandline.stages.tables.rows.sample_rows",
    "ScorePerplexity": "strandline.stages.text.scoring.score_perplexity",
    "ScoreText": "strandline.stages.text.scoring.score_text",
    "SelectColumns": "strandline.stages.tables.select_columns",
    "ShufflePartitions": "strandline.stages.tables.shuffle.shuffle_source",
    "ShuffleSink": "strandline.stages.tables.shuffle.shuffle_sink",
    "SignTexts": "strandline.stages.dedup.corpus.sign_texts",
    "SketchTexts": "strandline.stages.dedup.sketch_texts",
    "SplitParagraphs": "strandline.stages.dedup.corpus.paragraphs",
    "SplitVideo": "strandline.stages.video.split_video",
    "TableFiles": "strandline.stages.sources.table_files",
    "TfrecordSink": "strandline.stages.sinks.tfrecord_sink",
    "TokenShards": "strandline.stages.sinks.token_shards",
    "TokeniseChat": "strandline.stages.models.tokenise_chat",
    "TokeniseText": "strandline.stages.text.tokenise_text",
    "TranscodeClip": "strandline.stages.video.transcode_clip",
    "WarcFiles": "strandline.stages.sources.warc_source",
    "WebdatasetSink": "strandline.stages.sinks.webdataset_sink",
    "ZarrSink": "strandline.stages.sinks.zarr_sink",
}

__getattr__, __dir__ = load_lazily(globals(), _ROOMS)
