"""Stages for rows of any kind: reading, selecting, measuring."""

from __future__ import annotations

from strandline.plan.stages.packs import Pack

PACK = Pack(
    stages={
        "filter-rows": "strandline_packs.tables.functions.filter_rows:FilterRows",
        "keep-rows": "strandline_packs.tables.rows.keep_rows:KeepRows",
        "map-rows": "strandline_packs.tables.functions.map_rows:MapRows",
        "map-table": "strandline_packs.tables.functions.map_table:MapTable",
        "measure-fields": "strandline_packs.tables.measure_fields:MeasureFields",
        "mix": "strandline_packs.tables.shuffle.mix_source:Mix",
        "pack-sequences": "strandline_packs.tables.rows.pack_sequences:PackSequences",
        "read-arrow": "strandline_packs.tables.rows.read_arrow:ReadArrow",
        "read-csv": "strandline_packs.tables.rows.read_csv:ReadCsv",
        "read-files": "strandline_packs.tables.read_files:ReadFiles",
        "read-jsonl": "strandline_packs.tables.read_jsonl:ReadJsonl",
        "read-mix": "strandline_packs.tables.shuffle.read_mix:ReadMix",
        "read-parquet": "strandline_packs.tables.read_parquet:ReadParquet",
        "read-rows": "strandline_packs.tables.rows.read_rows:ReadRows",
        "read-shuffle": "strandline_packs.tables.shuffle.read_shuffle:ReadShuffle",
        "read-table": "strandline_packs.tables.rows.read_table:ReadTable",
        "read-webdataset": "strandline_packs.tables.read_webdataset:ReadWebdataset",
        "sample-groups": "strandline_packs.tables.rows.sample_groups:SampleGroups",
        "sample-rows": "strandline_packs.tables.rows.sample_rows:SampleRows",
        "select-columns": "strandline_packs.tables.select_columns:SelectColumns",
        "shuffle": "strandline_packs.tables.shuffle.shuffle_sink:ShuffleSink",
        "shuffle-partitions": "strandline_packs.tables.shuffle.shuffle_source:ShufflePartitions",
    },
    page="docs/stages.md",
)
