"""Files of several sinks, and the texts of their rows in order, as trainers read them.

The rows have a text, the text's bytes as tokens, and the bytes as content, so tests can compare
texts without regard to the sink.
"""

from __future__ import annotations

import io
import json
import struct
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tfrecord.reader import tfrecord_loader
from tfrecord.writer import TFRecordWriter

from strandline.plan.stages.ends import SharingSink
from strandline_packs.sinks.jsonl_sink import JsonlSink
from strandline_packs.sinks.mds_sink import MdsSink
from strandline_packs.sinks.parquet_partitions import ParquetSink
from strandline_packs.sinks.tfrecord_sink import TfrecordSink
from strandline_packs.sinks.token_shards import TokenShards
from strandline_packs.sinks.webdataset_sink import WebdatasetSink

KINDS = ("jsonl", "parquet", "token-shards", "webdataset", "mds", "datatrove", "tfrecord")


_LAST, _MASK = ord("a"), pa.list_(pa.bool_())


def make_sink(kind: str, target: int | None = None) -> SharingSink:
    """Return the sink with this name, for tables of `make_table`."""
    if kind == "token-shards":
        return TokenShards(target_bytes=target, token_bytes=2)
    if kind == "datatrove":
        return TokenShards(target_bytes=target, token_bytes=2, format="datatrove", mask="mask")
    if kind == "webdataset":
        return WebdatasetSink(target_bytes=target, key="text")
    if kind == "mds":
        return MdsSink(target_bytes=target)
    if kind == "tfrecord":
        return TfrecordSink(target_bytes=target)
    return {"jsonl": JsonlSink, "parquet": ParquetSink}[kind](target_bytes=target)


def make_table(texts: Sequence[str]) -> pa.Table:
    """Return one row per text; texts must be ASCII."""
    raw = [text.encode() for text in texts]
    return pa.table(
        {
            "text": pa.array(texts, pa.string()),
            "tokens": pa.array([list(each) for each in raw], pa.list_(pa.int32())),
            "mask": pa.array([[token > _LAST for token in each] for each in raw], _MASK),
            "content": pa.array(raw, pa.binary()),
        }
    )


def read_texts(files: Mapping[str, bytes]) -> list[str]:
    """Return the texts in a file and its companions, given by suffix; check that both agree."""
    if ".bin" in files:
        return [bytes(tokens).decode() for tokens in read_shard(files[".bin"], files[".idx"])]
    if ".ds" in files:
        return _read_documents(files[".ds"], files[".ds.index"], files[".ds.loss"])
    if ".mds" in files:
        return [row["text"] for row in read_mds(files[".mds"])]
    if ".tar" in files:
        return _read_samples(files[".tar"], files[".parquet"])
    return _read_rows(files)


def _read_rows(files: Mapping[str, bytes]) -> list[str]:
    """Return the texts of a format with one file."""
    if ".tfrecord" in files:
        return [row["text"].decode() for row in read_records(files[".tfrecord"])]
    if ".parquet" in files:
        texts: list[str] = pq.read_table(io.BytesIO(files[".parquet"]))["text"].to_pylist()
        return texts
    return [json.loads(line)["text"] for line in files[".jsonl"].splitlines()]


def read_shard(data: bytes, index: bytes) -> list[list[int]]:
    """Return lists of tokens, read as Megatron's `IndexedDataset` reads them."""
    assert index[:9] == b"MMIDIDX\x00\x00"
    version, code, sequences, documents = struct.unpack_from("<QBQQ", index, 9)
    assert (1, sequences + 1) == (version, documents)
    at = 9 + 25
    lengths = np.frombuffer(index, np.int32, sequences, at)
    begins = np.frombuffer(index, np.int64, sequences, at + lengths.nbytes)
    borders = np.frombuffer(index, np.int64, documents, at + lengths.nbytes + begins.nbytes)
    assert list(range(documents)) == borders.tolist()
    assert len(index) == at + lengths.nbytes + begins.nbytes + borders.nbytes
    width = {4: 4, 8: 2}[code]
    assert int(lengths.sum()) * width == len(data)
    tokens = np.frombuffer(data, np.int32 if width == 4 else np.uint16).tolist()
    return [
        tokens[begin // width : begin // width + length]
        for length, begin in zip(lengths.tolist(), begins.tolist(), strict=True)
    ]


def _read_documents(data: bytes, index: bytes, mask: bytes) -> list[str]:
    tokens = np.frombuffer(data, np.uint16)
    assert [token > _LAST for token in tokens] == [bool(each) for each in mask]
    ends = np.frombuffer(index, np.uint64).tolist()
    assert len(tokens) == (ends[-1] if ends else 0)
    return [bytes(tokens[a:b].tolist()).decode() for a, b in pairwise([0, *ends])]


def read_records(content: bytes) -> list[dict[str, Any]]:
    """Return the rows of a TFRecord file by an independent reader; check the checksums here."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        rows = list(tfrecord_loader(file.name, None))
    at = 0
    for _ in rows:
        (length,) = struct.unpack_from("<Q", content, at)
        for begin, end in ((at, at + 8), (at + 12, at + 12 + length)):
            assert content[end : end + 4] == TFRecordWriter.masked_crc(content[begin:end])
        at += 16 + length
    assert at == len(content)
    return rows


def read_mds(shard: bytes) -> list[dict[str, Any]]:
    """Return rows with text, bytes, and arrays, read as MosaicML's `MDSReader` reads them."""
    (count,) = np.frombuffer(shard, np.uint32, 1)
    ends = np.frombuffer(shard, np.uint32, int(count) + 1, 4).tolist()
    config = json.loads(shard[4 * (int(count) + 2) : ends[0]])
    assert len(shard) == ends[-1]
    return [_read_sample(shard[begin:end], config) for begin, end in pairwise(ends)]


def _read_sample(data: bytes, config: dict[str, Any]) -> dict[str, Any]:
    sizes, at, row = [], 0, {}
    for size in config["column_sizes"]:
        sizes.append(size or int(np.frombuffer(data, np.uint32, 1, at)[0]))
        at += 0 if size else 4
    for name, kind, size in zip(
        config["column_names"], config["column_encodings"], sizes, strict=True
    ):
        row[name] = _read_value(data[at : at + size], kind)
        at += size
    assert at == len(data)
    return row


def _read_value(data: bytes, kind: str) -> Any:
    name, _, number = kind.partition(":")
    if name == "ndarray":
        width = 1 << (data[0] % 4)
        values = np.frombuffer(data[1 + width :], number).tolist()
        assert int.from_bytes(data[1 : 1 + width], "little") == len(values)
        return values
    if name in {"str", "json", "bytes"}:
        text = data if name == "bytes" else data.decode()
        return json.loads(text) if name == "json" else text
    return np.frombuffer(data, name)[0].item()


def _read_samples(shard: bytes, facts: bytes) -> list[str]:
    rows = pq.read_table(io.BytesIO(facts)).to_pylist()
    samples: dict[str, dict[str, bytes]] = {}
    with tarfile.open(fileobj=io.BytesIO(shard)) as tar:
        for member in tar:
            name, _, kind = member.name.partition(".")
            content = tar.extractfile(member)
            assert content is not None
            samples.setdefault(name, {})[kind] = content.read()
    assert [row["sample"] for row in rows] == list(samples)
    assert [json.loads(each["json"])["sample"] for each in samples.values()] == list(samples)
    texts = [each["bin"].decode() for each in samples.values()]
    assert [row["text"] for row in rows] == texts
    return texts
