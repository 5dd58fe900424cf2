"""Stages that list sources: files, tables, and data sets."""

from __future__ import annotations

from strandline.plan.stages.packs import Pack

PACK = Pack(
    stages={
        "dataset-folder": "strandline_packs.sources.dataset_folder:DatasetFolder",
        "files": "strandline_packs.sources.files:Files",
        "jsonl-files": "strandline_packs.sources.jsonl_source:JsonlFiles",
        "parquet-row-groups": "strandline_packs.sources.parquet_source:ParquetRowGroups",
        "table-files": "strandline_packs.sources.table_files:TableFiles",
        "warc-files": "strandline_packs.sources.warc_source:WarcFiles",
    },
    page="docs/stages.md",
)
