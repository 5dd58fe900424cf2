# Made by `make crds` from the lists of the packs. Do not edit.
from strandline_packs.audio.decode_audio import DecodeAudio as DecodeAudio
from strandline_packs.audio.filter_audio import FilterAudio as FilterAudio
from strandline_packs.audio.identify_spoken_language import (
    IdentifySpokenLanguage as IdentifySpokenLanguage,
)
from strandline_packs.audio.measure_audio import MeasureAudio as MeasureAudio
from strandline_packs.audio.split_speech import SplitSpeech as SplitSpeech
from strandline_packs.audio.transcode_audio import TranscodeAudio as TranscodeAudio
from strandline_packs.audio.transcribe import Transcribe as Transcribe
from strandline_packs.code.count_languages import CountLanguages as CountLanguages
from strandline_packs.code.decode_python import DecodePython as DecodePython
from strandline_packs.code.drop_generated_code import DropGeneratedCode as DropGeneratedCode
from strandline_packs.code.extract_functions import ExtractFunctions as ExtractFunctions
from strandline_packs.code.fill_middle import FillMiddle as FillMiddle
from strandline_packs.code.filter_code_quality import FilterCodeQuality as FilterCodeQuality
from strandline_packs.code.keep_documented import KeepDocumented as KeepDocumented
from strandline_packs.code.redact_secrets import RedactSecrets as RedactSecrets
from strandline_packs.dedup.corpus.cluster_duplicates import ClusterDuplicates as ClusterDuplicates
from strandline_packs.dedup.corpus.digest_rows import DigestRows as DigestRows
from strandline_packs.dedup.corpus.link_duplicates import LinkDuplicates as LinkDuplicates
from strandline_packs.dedup.corpus.list_kept import ListKept as ListKept
from strandline_packs.dedup.corpus.paragraphs import JoinParagraphs as JoinParagraphs
from strandline_packs.dedup.corpus.paragraphs import SplitParagraphs as SplitParagraphs
from strandline_packs.dedup.corpus.sentences import DigestSentences as DigestSentences
from strandline_packs.dedup.corpus.sentences import DropListedSentences as DropListedSentences
from strandline_packs.dedup.corpus.sign_texts import SignTexts as SignTexts
from strandline_packs.dedup.drop_contaminated import DropContaminated as DropContaminated
from strandline_packs.dedup.drop_duplicates import DropDuplicates as DropDuplicates
from strandline_packs.dedup.drop_listed import DropListed as DropListed
from strandline_packs.dedup.near.sketch_texts import SketchTexts as SketchTexts
from strandline_packs.dedup.seen.drop_seen import DropSeen as DropSeen
from strandline_packs.dedup.seen.fill_bloom import FillBloom as FillBloom
from strandline_packs.images.blur_images import BlurImages as BlurImages
from strandline_packs.images.decode_images import DecodeImages as DecodeImages
from strandline_packs.images.measure_images import MeasureImages as MeasureImages
from strandline_packs.images.resize_images import ResizeImages as ResizeImages
from strandline_packs.images.sampling.show_samples import ShowSamples as ShowSamples
from strandline_packs.models.asking.ask_model import AskModel as AskModel
from strandline_packs.models.caption_frames import CaptionFrames as CaptionFrames
from strandline_packs.models.embed_frames import EmbedFrames as EmbedFrames
from strandline_packs.models.score_images import ScoreImages as ScoreImages
from strandline_packs.models.tokenise_chat import TokeniseChat as TokeniseChat
from strandline_packs.pdf.join_pages import JoinPages as JoinPages
from strandline_packs.pdf.ocr_pages import OcrPages as OcrPages
from strandline_packs.pdf.read_pdf import ReadPdf as ReadPdf
from strandline_packs.sinks.jsonl_sink import JsonlSink as JsonlSink
from strandline_packs.sinks.mds_sink import MdsSink as MdsSink
from strandline_packs.sinks.parquet_partitions import ParquetPartitions as ParquetPartitions
from strandline_packs.sinks.parquet_partitions import ParquetSink as ParquetSink
from strandline_packs.sinks.row_sinks import ArrowSink as ArrowSink
from strandline_packs.sinks.row_sinks import CsvSink as CsvSink
from strandline_packs.sinks.tfrecord_sink import TfrecordSink as TfrecordSink
from strandline_packs.sinks.token_shards import TokenShards as TokenShards
from strandline_packs.sinks.webdataset_sink import WebdatasetSink as WebdatasetSink
from strandline_packs.sinks.zarr_sink import ZarrSink as ZarrSink
from strandline_packs.sources.dataset_folder import DatasetFolder as DatasetFolder
from strandline_packs.sources.files import Files as Files
from strandline_packs.sources.jsonl_source import JsonlFiles as JsonlFiles
from strandline_packs.sources.parquet_source import ParquetRowGroups as ParquetRowGroups
from strandline_packs.sources.table_files import TableFiles as TableFiles
from strandline_packs.sources.warc_source import WarcFiles as WarcFiles
from strandline_packs.tables.functions.filter_rows import FilterRows as FilterRows
from strandline_packs.tables.functions.map_rows import MapRows as MapRows
from strandline_packs.tables.functions.map_table import MapTable as MapTable
from strandline_packs.tables.measure_fields import MeasureFields as MeasureFields
from strandline_packs.tables.read_files import ReadFiles as ReadFiles
from strandline_packs.tables.read_jsonl import ReadJsonl as ReadJsonl
from strandline_packs.tables.read_parquet import ReadParquet as ReadParquet
from strandline_packs.tables.read_webdataset import ReadWebdataset as ReadWebdataset
from strandline_packs.tables.rows.keep_rows import KeepRows as KeepRows
from strandline_packs.tables.rows.pack_sequences import PackSequences as PackSequences
from strandline_packs.tables.rows.read_arrow import ReadArrow as ReadArrow
from strandline_packs.tables.rows.read_csv import ReadCsv as ReadCsv
from strandline_packs.tables.rows.read_rows import ReadRows as ReadRows
from strandline_packs.tables.rows.read_table import ReadTable as ReadTable
from strandline_packs.tables.rows.sample_groups import SampleGroups as SampleGroups
from strandline_packs.tables.rows.sample_rows import SampleRows as SampleRows
from strandline_packs.tables.select_columns import SelectColumns as SelectColumns
from strandline_packs.tables.shuffle.mix_source import Mix as Mix
from strandline_packs.tables.shuffle.read_mix import ReadMix as ReadMix
from strandline_packs.tables.shuffle.read_shuffle import ReadShuffle as ReadShuffle
from strandline_packs.tables.shuffle.shuffle_sink import ShuffleSink as ShuffleSink
from strandline_packs.tables.shuffle.shuffle_source import ShufflePartitions as ShufflePartitions
from strandline_packs.text.count_tokens import CountTokens as CountTokens
from strandline_packs.text.filter_text_quality import FilterTextQuality as FilterTextQuality
from strandline_packs.text.filters.drop_listed_words import DropListedWords as DropListedWords
from strandline_packs.text.filters.presets.c4_quality import C4Quality as C4Quality
from strandline_packs.text.filters.presets.fineweb_quality import FinewebQuality as FinewebQuality
from strandline_packs.text.filters.presets.gopher_quality import GopherQuality as GopherQuality
from strandline_packs.text.filters.presets.gopher_repetition import (
    GopherRepetition as GopherRepetition,
)
from strandline_packs.text.normalise_text import NormaliseText as NormaliseText
from strandline_packs.text.parse_documents import ParseDocuments as ParseDocuments
from strandline_packs.text.privacy.redact_pii import RedactPii as RedactPii
from strandline_packs.text.repair_text import RepairText as RepairText
from strandline_packs.text.scoring.classify_text import ClassifyText as ClassifyText
from strandline_packs.text.scoring.identify_language import IdentifyLanguage as IdentifyLanguage
from strandline_packs.text.scoring.score_perplexity import ScorePerplexity as ScorePerplexity
from strandline_packs.text.scoring.score_text import ScoreText as ScoreText
from strandline_packs.text.tokenise_text import TokeniseText as TokeniseText
from strandline_packs.vectors.assign_cluster import AssignCluster as AssignCluster
from strandline_packs.vectors.compare_vectors import CompareVectors as CompareVectors
from strandline_packs.vectors.embedding.embed_hashes import EmbedHashes as EmbedHashes
from strandline_packs.vectors.embedding.embed_images import EmbedImages as EmbedImages
from strandline_packs.vectors.embedding.embed_text import EmbedText as EmbedText
from strandline_packs.vectors.fit_clusters import FitClusters as FitClusters
from strandline_packs.vectors.list_similar import ListSimilar as ListSimilar
from strandline_packs.video.decode_frames import DecodeFrames as DecodeFrames
from strandline_packs.video.filter_video import FilterVideo as FilterVideo
from strandline_packs.video.hash_video import HashVideo as HashVideo
from strandline_packs.video.measure_motion import MeasureMotion as MeasureMotion
from strandline_packs.video.measure_video import MeasureVideo as MeasureVideo
from strandline_packs.video.split_video import SplitVideo as SplitVideo
from strandline_packs.video.transcode_clip import TranscodeClip as TranscodeClip
from strandline_packs.web.extract_text import ExtractText as ExtractText
from strandline_packs.web.filter_urls import FilterUrls as FilterUrls
from strandline_packs.web.warc.read_warc import ReadWarc as ReadWarc

__all__ = [
    "ArrowSink",
    "AskModel",
    "AssignCluster",
    "BlurImages",
    "C4Quality",
    "CaptionFrames",
    "ClassifyText",
    "ClusterDuplicates",
    "CompareVectors",
    "CountLanguages",
    "CountTokens",
    "CsvSink",
    "DatasetFolder",
    "DecodeAudio",
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
    "EmbedHashes",
    "EmbedImages",
    "EmbedText",
    "ExtractFunctions",
    "ExtractText",
    "Files",
    "FillBloom",
    "FillMiddle",
    "FilterAudio",
    "FilterCodeQuality",
    "FilterRows",
    "FilterTextQuality",
    "FilterUrls",
    "FilterVideo",
    "FinewebQuality",
    "FitClusters",
    "GopherQuality",
    "GopherRepetition",
    "HashVideo",
    "IdentifyLanguage",
    "IdentifySpokenLanguage",
    "JoinPages",
    "JoinParagraphs",
    "JsonlFiles",
    "JsonlSink",
    "KeepDocumented",
    "KeepRows",
    "LinkDuplicates",
    "ListKept",
    "ListSimilar",
    "MapRows",
    "MapTable",
    "MdsSink",
    "MeasureAudio",
    "MeasureFields",
    "MeasureImages",
    "MeasureMotion",
    "MeasureVideo",
    "Mix",
    "NormaliseText",
    "OcrPages",
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
    "ReadPdf",
    "ReadRows",
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
    "ScoreImages",
    "ScorePerplexity",
    "ScoreText",
    "SelectColumns",
    "ShowSamples",
    "ShufflePartitions",
    "ShuffleSink",
    "SignTexts",
    "SketchTexts",
    "SplitParagraphs",
    "SplitSpeech",
    "SplitVideo",
    "TableFiles",
    "TfrecordSink",
    "TokenShards",
    "TokeniseChat",
    "TokeniseText",
    "TranscodeAudio",
    "TranscodeClip",
    "Transcribe",
    "WarcFiles",
    "WebdatasetSink",
    "ZarrSink",
]
