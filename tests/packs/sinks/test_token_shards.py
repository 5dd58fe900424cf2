"""Tokens of a tokenizer trained here, and the shards that training reads."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from shard_files import read_shard
from stage_runs import StageRun
from strandline import ExitCode, Pipeline
from strandline.plan.stages.ends import SinkStage
from strandline.plan.stages.registry import find_stage
from strandline.plan.task import Task
from strandline.stages import Files, ParseDocuments, ReadFiles, TokeniseText, TokenShards
from strandline_api.documents.problems import SpecError
from web_archive import SENTENCES

TEXTS = [" ".join(sentences) for sentences in SENTENCES.values()]
END = "<|endoftext|>"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Train a byte-level BPE on a few sentences, configured to truncate and pad."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    trained.train_from_iterator(TEXTS, trainer)
    trained.enable_truncation(5)
    trained.enable_padding(length=100)
    path = tmp_path_factory.mktemp("bpe") / "tokenizer.json"
    trained.save(str(path))
    return str(path)


def test_tokens_decode_to_the_text_and_are_counted(tokenizer: str) -> None:
    stage = StageRun("tokenise-text", tokenizer=tokenizer)
    rows = stage.rows([{"key": "a", "text": text} for text in [*TEXTS, ""]])
    decode = Tokenizer.from_file(tokenizer).decode
    assert [*TEXTS, ""] == [decode(row["tokens"]) for row in rows]
    assert [len(row["tokens"]) for row in rows] == [row["token_count"] for row in rows]
    assert {"tokens": sum(row["token_count"] for row in rows)} == stage.counters
    assert {"key", "tokens", "token_count"} == set(rows[0])


def test_texts_end_with_the_requested_token(tokenizer: str) -> None:
    stage = StageRun("tokenise-text", tokenizer=tokenizer, append=END, keepText=True)
    number = Tokenizer.from_file(tokenizer).token_to_id(END)
    rows = stage.rows([{"text": "a"}, {"text": ""}])
    assert [number, number] == [row["tokens"][-1] for row in rows]
    assert ["a", ""] == [row["text"] for row in rows]
    with pytest.raises(ValueError, match="has no token '<none>'"):
        StageRun("tokenise-text", tokenizer=tokenizer, append="<none>")


def test_a_missing_or_invalid_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"gone\.json: No such file"):
        find_stage("tokenise-text")(tokenizer="gone.json")
    (tmp_path / "no.json").write_text("{}")
    with pytest.raises(ValueError, match=r"no\.json: not a readable tokenizer"):
        StageRun("tokenise-text", tokenizer=f"{tmp_path}/no.json")


def test_another_tokenizer_is_another_fingerprint(tokenizer: str, tmp_path: Path) -> None:
    other = tmp_path / "tokenizer.json"
    other.write_text(Path(tokenizer).read_text().replace(END, "<|end|>"))
    digests = [
        find_stage("tokenise-text")(tokenizer=path).digest_inputs()["tokenizer"]
        for path in (tokenizer, str(other))
    ]
    assert digests[0] != digests[1]


def write_shard(rows: list[list[int] | None], cut: int, width: int) -> tuple[bytes, bytes]:
    table = pa.table({"tokens": pa.array(rows, pa.list_(pa.int32()))})
    chunked = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    stage = find_stage("token-shards")(token_bytes=width)
    assert isinstance(stage, SinkStage)
    index = io.BytesIO()
    stage.list_companions()[".idx"](Task(chunked), index)
    return StageRun("token-shards", tokenBytes=width).written(chunked), index.getvalue()


@given(
    rows=st.lists(st.none() | st.lists(st.integers(0, 65_535), max_size=6), min_size=1, max_size=8),
    cut=st.integers(0, 8),
    width=st.sampled_from([2, 4]),
)
def test_law_shards_read_back_however_rows_are_chunked(
    rows: list[list[int] | None], cut: int, width: int
) -> None:
    assert [row or [] for row in rows] == read_shard(*write_shard(rows, cut, width))


def test_a_token_that_does_not_fit_is_refused() -> None:
    with pytest.raises(pa.ArrowInvalid, match="70000"):
        write_shard([[70_000]], 0, 2)
    with pytest.raises(TypeError, match="'tokens' holds string, not lists of tokens"):
        StageRun("token-shards").written(pa.table({"tokens": ["a"]}))


def test_a_run_writes_both_files_and_resumes_without_rewriting(
    tokenizer: str, tmp_path: Path
) -> None:
    (tmp_path / "texts").mkdir()
    for number, text in enumerate(TEXTS):
        (tmp_path / f"texts/{number}.txt").write_text(text)
    values: dict[str, Any] = {"checkpoint_path": str(tmp_path / "ledger"), "engine": "inline"}
    pipeline = Pipeline(
        "tokens",
        source=Files(paths=[f"{tmp_path}/texts/*.txt"]),
        stages=[ReadFiles(), ParseDocuments(), TokeniseText(tokenizer=tokenizer)],
        sink=TokenShards(path=str(tmp_path / "out"), token_bytes=2),
    )
    assert pipeline.run(**values).code is ExitCode.COMPLETE
    decode = Tokenizer.from_file(tokenizer).decode
    shards = sorted((tmp_path / "out").rglob("*.bin"))
    found = [
        decode(tokens)
        for path in shards
        for tokens in read_shard(path.read_bytes(), path.with_suffix(".idx").read_bytes())
    ]
    assert sorted(TEXTS) == sorted(found)
    assert len(TEXTS) == len(shards) == len(list((tmp_path / "out").rglob("*.idx")))
    again = pipeline.run(**values)
    assert again.code is ExitCode.COMPLETE
    assert len(TEXTS) == len(list((tmp_path / "out").rglob("*.idx")))
