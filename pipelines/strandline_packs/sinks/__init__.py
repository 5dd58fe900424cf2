"""Stages that write outputs."""

from __future__ import annotations

from strandline.plan.stages.packs import Dependency, Pack

PACK = Pack(
    stages={
        "arrow": "strandline_packs.sinks.row_sinks:ArrowSink",
        "csv": "strandline_packs.sinks.row_sinks:CsvSink",
        "jsonl": "strandline_packs.sinks.jsonl_sink:JsonlSink",
        "mds": "strandline_packs.sinks.mds_sink:MdsSink",
        "parquet": "strandline_packs.sinks.parquet_partitions:ParquetSink",
        "parquet-partitions": "strandline_packs.sinks.parquet_partitions:ParquetPartitions",
        "tfrecord": "strandline_packs.sinks.tfrecord_sink:TfrecordSink",
        "token-shards": "strandline_packs.sinks.token_shards:TokenShards",
        "webdataset": "strandline_packs.sinks.webdataset_sink:WebdatasetSink",
        "zarr": "strandline_packs.sinks.zarr_sink:ZarrSink",
    },
    packages=(
        Dependency(module="google_crc32c", name="google-crc32c", install="strandline[tfrecord]"),
        Dependency(module="xarray", name="xarray", install="strandline[fields]"),
        Dependency(module="zarr", name="zarr", install="strandline[fields]"),
    ),
    page="docs/outputs.md",
)
