"""The stages that come with Strandline, one file each.

A stage knows tasks and its parameters; it must not know the ledger, the engine or the run. Their
classes are public here, and each is loaded when it is first used: a worker needs one of them.
Made by `make crds` from the files of the stages. Do not edit.
"""

from typing import TYPE_CHECKING

from strandline.lazy_names import load_lazily

if TYPE_CHECKING:
    from strandline_packs.code.count_languages import CountLanguages
    from strandline_packs.code.decode_python import DecodePython
    from strandline_packs.code.drop_generated_code import DropGeneratedCode
    from strandline_packs.code.extract_functions import ExtractFunctions
    from strandline_packs.code.fill_middle import FillMiddle
    from strandline_packs.code.filter_code_quality import FilterCodeQuality
    from strandline_packs.code.keep_documented import KeepDocumented
    from strandline_packs.code.redact_secrets import RedactSecrets
    from strandline_packs.dedup.corpus.cluster_duplicates import ClusterDuplicates
    from strandline_packs.dedup.corpus.digest_rows import DigestRows
    from strandline_packs.dedup.corpus.link_duplicates import LinkDuplicates
    from strandline_packs.dedup.corpus.list_kept import ListKept
    from strandline_packs.dedup.corpus.paragraphs import JoinParagraphs, SplitParagraphs
    from strandline_packs.dedup.corpus.sentences import DigestSentences, DropListedSentences
    from strandline_packs.dedup.corpus.sign_texts import SignTexts
    from strandline_packs.dedup.drop_contaminated import DropContaminated
    from strandline_packs.dedup.drop_duplicates import DropDuplicates
    from strandline_packs.dedup.drop_listed import DropListed
    from strandline_packs.dedup.seen.drop_seen import DropSeen
    from strandline_packs.dedup.seen.fill_bloom import FillBloom
    from strandline_packs.dedup.sketch_texts import SketchTexts
    from strandline_packs.images.decode_images import DecodeImages
    from strandline_packs.images.measure_images import MeasureImages
    from strandline_packs.images.resize_images import ResizeImages
    from strandline_packs.models.asking.ask_model import AskModel
    from strandline_packs.models.caption_frames import CaptionFrames
    from strandline_packs.models.embed_frames import EmbedFrames
    from strandline_packs.models.tokenise_chat import TokeniseChat
    from strandline_packs.sinks.jsonl_sink import JsonlSink
    from strandline_packs.sinks.mds_sink import MdsSink
    from strandline_packs.sinks.parquet_partitions import ParquetPartitions, ParquetSink
    from strandline_packs.sinks.row_sinks import ArrowSink, CsvSink
    from strandline_packs.sinks.tfrecord_sink import TfrecordSink
    from strandline_packs.sinks.token_shards import TokenShards
    from strandline_packs.sinks.webdataset_sink import WebdatasetSink
    from strandline_packs.sinks.zarr_sink import ZarrSink
    from strandline_packs.sources.dataset_folder import DatasetFolder
    from strandline_packs.sources.files import Files
    from strandline_packs.sources.jsonl_source import JsonlFiles
    from strandline_packs.sources.parquet_source import ParquetRowGroups
    from strandline_packs.sources.table_files import TableFiles
    from strandline_packs.sources.warc_source import WarcFiles
    from strandline_packs.tables.measure_fields import MeasureFields
    from strandline_packs.tables.read_files import ReadFiles
    from strandline_packs.tables.read_jsonl import ReadJsonl
    from strandline_packs.tables.read_parquet import ReadParquet
    from strandline_packs.tables.read_webdataset import ReadWebdataset
    from strandline_packs.tables.rows.keep_rows import KeepRows
    from strandline_packs.tables.rows.pack_sequences import PackSequences
    from strandline_packs.tables.rows.read_arrow import ReadArrow
    from strandline_packs.tables.rows.read_csv import ReadCsv
    from strandline_packs.tables.rows.read_table import ReadTable
    from strandline_packs.tables.rows.sample_groups import SampleGroups
    from strandline_packs.tables.rows.sample_rows import SampleRows
    from strandline_packs.tables.select_columns import SelectColumns
    from strandline_packs.tables.shuffle.mix_source import Mix
    from strandline_packs.tables.shuffle.read_mix import ReadMix
    from strandline_packs.tables.shuffle.read_shuffle import ReadShuffle
    from strandline_packs.tables.shuffle.shuffle_sink import ShuffleSink
    from strandline_packs.tables.shuffle.shuffle_source import ShufflePartitions
    from strandline_packs.text.count_tokens import CountTokens
    from strandline_packs.text.filter_text_quality import FilterTextQuality
    from strandline_packs.text.filters.drop_listed_words import DropListedWords
    from strandline_packs.text.filters.presets.c4_quality import C4Quality
    from strandline_packs.text.filters.presets.fineweb_quality import FinewebQuality
    from strandline_packs.text.filters.presets.gopher_quality import GopherQuality
    from strandline_packs.text.filters.presets.gopher_repetition import GopherRepetition
    from strandline_packs.text.normalise_text import NormaliseText
    from strandline_packs.text.parse_documents import ParseDocuments
    from strandline_packs.text.privacy.redact_pii import RedactPii
    from strandline_packs.text.repair_text import RepairText
    from strandline_packs.text.scoring.classify_text import ClassifyText
    from strandline_packs.text.scoring.identify_language import IdentifyLanguage
    from strandline_packs.text.scoring.score_perplexity import ScorePerplexity
    from strandline_packs.text.scoring.score_text import ScoreText
    from strandline_packs.text.tokenise_text import TokeniseText
    from strandline_packs.video.decode_frames import DecodeFrames
    from strandline_packs.video.filter_video import FilterVideo
    from strandline_packs.video.hash_video import HashVideo
    from strandline_packs.video.measure_motion import MeasureMotion
    from strandline_packs.video.measure_video import MeasureVideo
    from strandline_packs.video.split_video import SplitVideo
    from strandline_packs.video.transcode_clip import TranscodeClip
    from strandline_packs.web.extract_text import ExtractText
    from strandline_packs.web.filter_urls import FilterUrls
    from strandline_packs.web.read_warc import ReadWarc

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
    "ArrowSink": "strandline_packs.sinks.row_sinks",
    "AskModel": "strandline_packs.models.asking.ask_model",
    "C4Quality": "strandline_packs.text.filters.presets.c4_quality",
    "CaptionFrames": "strandline_packs.models.caption_frames",
    "ClassifyText": "strandline_packs.text.scoring.classify_text",
    "ClusterDuplicates": "strandline_packs.dedup.corpus.cluster_duplicates",
    "CountLanguages": "strandline_packs.code.count_languages",
    "CountTokens": "strandline_packs.text.count_tokens",
    "CsvSink": "strandline_packs.sinks.row_sinks",
    "DatasetFolder": "strandline_packs.sources.dataset_folder",
    "DecodeFrames": "strandline_packs.video.decode_frames",
    "DecodeImages": "strandline_packs.images.decode_images",
    "DecodePython": "strandline_packs.code.decode_python",
    "DigestRows": "strandline_packs.dedup.corpus.digest_rows",
    "DigestSentences": "strandline_packs.dedup.corpus.sentences",
    "DropContaminated": "strandline_packs.dedup.drop_contaminated",
    "DropDuplicates": "strandline_packs.dedup.drop_duplicates",
    "DropGeneratedCode": "strandline_packs.code.drop_generated_code",
    "DropListed": "strandline_packs.dedup.drop_listed",
    "DropListedSentences": "strandline_packs.dedup.corpus.sentences",
    "DropListedWords": "strandline_packs.text.filters.drop_listed_words",
    "DropSeen": "strandline_packs.dedup.seen.drop_seen",
    "EmbedFrames": "strandline_packs.models.embed_frames",
    "ExtractFunctions": "strandline_packs.code.extract_functions",
    "ExtractText": "strandline_packs.web.extract_text",
    "Files": "strandline_packs.sources.files",
    "FillBloom": "strandline_packs.dedup.seen.fill_bloom",
    "FillMiddle": "strandline_packs.code.fill_middle",
    "FilterCodeQuality": "strandline_packs.code.filter_code_quality",
    "FilterTextQuality": "strandline_packs.text.filter_text_quality",
    "FilterUrls": "strandline_packs.web.filter_urls",
    "FilterVideo": "strandline_packs.video.filter_video",
    "FinewebQuality": "strandline_packs.text.filters.presets.fineweb_quality",
    "GopherQuality": "strandline_packs.text.filters.presets.gopher_quality",
    "GopherRepetition": "strandline_packs.text.filters.presets.gopher_repetition",
    "HashVideo": "strandline_packs.video.hash_video",
    "IdentifyLanguage": "strandline_packs.text.scoring.identify_language",
    "JoinParagraphs": "strandline_packs.dedup.corpus.paragraphs",
    "JsonlFiles": "strandline_packs.sources.jsonl_source",
    "JsonlSink": "strandline_packs.sinks.jsonl_sink",
    "KeepDocumented": "strandline_packs.code.keep_documented",
    "KeepRows": "strandline_packs.tables.rows.keep_rows",
    "LinkDuplicates": "strandline_packs.dedup.corpus.link_duplicates",
    "ListKept": "strandline_packs.dedup.corpus.list_kept",
    "MdsSink": "strandline_packs.sinks.mds_sink",
    "MeasureFields": "strandline_packs.tables.measure_fields",
    "MeasureImages": "strandline_packs.images.measure_images",
    "MeasureMotion": "strandline_packs.video.measure_motion",
    "MeasureVideo": "strandline_packs.video.measure_video",
    "Mix": "strandline_packs.tables.shuffle.mix_source",
    "NormaliseText": "strandline_packs.text.normalise_text",
    "PackSequences": "strandline_packs.tables.rows.pack_sequences",
    "ParquetPartitions": "strandline_packs.sinks.parquet_partitions",
    "ParquetRowGroups": "strandline_packs.sources.parquet_source",
    "ParquetSink": "strandline_packs.sinks.parquet_partitions",
    "ParseDocuments": "strandline_packs.text.parse_documents",
    "ReadArrow": "strandline_packs.tables.rows.read_arrow",
    "ReadCsv": "strandline_packs.tables.rows.read_csv",
    "ReadFiles": "strandline_packs.tables.read_files",
    "ReadJsonl": "strandline_packs.tables.read_jsonl",
    "ReadMix": "strandline_packs.tables.shuffle.read_mix",
    "ReadParquet": "strandline_packs.tables.read_parquet",
    "ReadShuffle": "strandline_packs.tables.shuffle.read_shuffle",
    "ReadTable": "strandline_packs.tables.rows.read_table",
    "ReadWarc": "strandline_packs.web.read_warc",
    "ReadWebdataset": "strandline_packs.tables.read_webdataset",
    "RedactPii": "strandline_packs.text.privacy.redact_pii",
    "RedactSecrets": "strandline_packs.code.redact_secrets",
    "RepairText": "strandline_packs.text.repair_text",
    "ResizeImages": "strandline_packs.images.resize_images",
    "SampleGroups": "strandline_packs.tables.rows.sample_groups",
    "SampleRows": "strandline_packs.tables.rows.sample_rows",
    "ScorePerplexity": "strandline_packs.text.scoring.score_perplexity",
    "ScoreText": "strandline_packs.text.scoring.score_text",
    "SelectColumns": "strandline_packs.tables.select_columns",
    "ShufflePartitions": "strandline_packs.tables.shuffle.shuffle_source",
    "ShuffleSink": "strandline_packs.tables.shuffle.shuffle_sink",
    "SignTexts": "strandline_packs.dedup.corpus.sign_texts",
    "SketchTexts": "strandline_packs.dedup.sketch_texts",
    "SplitParagraphs": "strandline_packs.dedup.corpus.paragraphs",
    "SplitVideo": "strandline_packs.video.split_video",
    "TableFiles": "strandline_packs.sources.table_files",
    "TfrecordSink": "strandline_packs.sinks.tfrecord_sink",
    "TokenShards": "strandline_packs.sinks.token_shards",
    "TokeniseChat": "strandline_packs.models.tokenise_chat",
    "TokeniseText": "strandline_packs.text.tokenise_text",
    "TranscodeClip": "strandline_packs.video.transcode_clip",
    "WarcFiles": "strandline_packs.sources.warc_source",
    "WebdatasetSink": "strandline_packs.sinks.webdataset_sink",
    "ZarrSink": "strandline_packs.sinks.zarr_sink",
}

__getattr__, __dir__ = load_lazily(globals(), _ROOMS)
