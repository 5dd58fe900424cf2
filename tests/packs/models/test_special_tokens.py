"""Special tokens in texts, and vocabularies that do not fit into a shard."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from stage_runs import StageRun
from strandline import Pipeline
from strandline.plan.pipeline import PipelinePlan
from strandline.stages import Files, ParseDocuments, ReadFiles, TokeniseText, TokenShards
from strandline_api.documents.problems import SpecError

END, UNKNOWN = "<|endoftext|>", "<unk>"
TEXTS = ["the tide of the sea", "a ship at sea", "<unk> is no mark"]


def train_bytes() -> Tokenizer:
    """Train a byte-level BPE, like GPT-2's."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{END} $0 {END}", special_tokens=[(END, 0)]
    )
    return tokenizer


def train_pieces() -> Tokenizer:
    """Make a vocabulary of scored pieces that includes the special token, as in T5."""
    letters = [(letter, -9.0) for letter in "▁ abcdefghijklmnopqrstuvwxyz<>|/"]
    pieces = [("<unk>", -20.0), (END, 0.0), *letters, ("▁the", -2.0), ("▁sea", -2.0)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens([AddedToken(END, special=True), AddedToken("<unk>", special=True)])
    return tokenizer


def list_words() -> Tokenizer:
    """Make a vocabulary of whole words, with the special token as an ordinary word."""
    words = {END: 0, "<unk>": 1, "the": 2, "sea": 3, "<": 4, "|endoftext|>": 5}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


KINDS = [train_bytes, train_pieces, list_words]


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("tokenizers")
    for make in KINDS:
        make().save(str(folder / f"{make.__name__}.json"))
    return {make.__name__: str(folder / f"{make.__name__}.json") for make in KINDS}


texts = st.lists(st.sampled_from([END, "the", "sea", " ", "\n", "<|", "endoftext|>"])).map("".join)


@pytest.mark.parametrize("make", KINDS)
@given(text=texts)
def test_law_a_text_has_no_special_token_except_its_end(
    paths: dict[str, str], make: Callable[[], Tokenizer], text: str
) -> None:
    stage = StageRun("tokenise-text", tokenizer=paths[make.__name__], append=END)
    ending = Tokenizer.from_file(paths[make.__name__]).token_to_id(END)
    ((row),) = stage.rows([{"text": text}])
    assert row["tokens"].count(ending) == 1
    assert row["tokens"][-1] == ending


def test_a_text_of_special_tokens_costs_as_much_as_others(paths: dict[str, str]) -> None:
    stage = StageRun("tokenise-text", tokenizer=paths["train_pieces"], append=END)
    ((row),) = stage.rows([{"text": END * 5_000}])
    ending = Tokenizer.from_file(paths["train_pieces"]).token_to_id(END)
    assert row["tokens"].count(ending) == 1


@given(text=texts)
def test_law_the_text_is_complete(paths: dict[str, str], text: str) -> None:
    stage = StageRun("tokenise-text", tokenizer=paths["train_bytes"])
    ((row),) = stage.rows([{"text": text}])
    decode = Tokenizer.from_file(paths["train_bytes"]).decode
    assert decode(row["tokens"], skip_special_tokens=False) == text


def test_special_tokens_around_a_text_stay(paths: dict[str, str]) -> None:
    stage = StageRun("tokenise-text", tokenizer=paths["train_bytes"], specialTokens=True)
    ((row),) = stage.rows([{"text": f"the{END}sea"}])
    ending = Tokenizer.from_file(paths["train_bytes"]).token_to_id(END)
    assert [row["tokens"][0], row["tokens"][-1]] == [ending, ending]
    assert row["tokens"].count(ending) == 2


@pytest.mark.parametrize("make", KINDS)
def test_special_tokens_in_texts_are_tokens_on_request(
    paths: dict[str, str], make: Callable[[], Tokenizer]
) -> None:
    stage = StageRun("tokenise-text", tokenizer=paths[make.__name__], parseSpecialTokens=True)
    ((row),) = stage.rows([{"text": f"the {END} sea"}])
    ending = Tokenizer.from_file(paths[make.__name__]).token_to_id(END)
    assert row["tokens"].count(ending) == 1


def plan(tokenizer: Path, width: int) -> PipelinePlan:
    pipeline = Pipeline(
        "tokens",
        source=Files(paths=["texts/*.txt"]),
        stages=[ReadFiles(), ParseDocuments(), TokeniseText(tokenizer=str(tokenizer))],
        sink=TokenShards(path="out", token_bytes=width),
    )
    return pipeline.plan


@pytest.mark.parametrize(
    ("vocabulary", "added", "fits"),
    [
        ({"a": 0, "b": 65_535}, [], True),
        ({"a": 0, "b": 65_536}, [], False),
        ({"a": 0}, [{"id": 151_643, "content": END}], False),
        ([["a", -1.0]] * 65_537, [], False),
        ([["a", -1.0]] * 65_536, [], True),
        (None, None, True),
    ],
)
def test_a_vocabulary_that_does_not_fit_is_refused_before_a_run(
    tmp_path: Path, vocabulary: object, added: object, fits: bool
) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({"model": {"vocab": vocabulary}, "added_tokens": added}))
    plan(path, 4)
    if fits:
        plan(path, 2)
    else:
        with pytest.raises(SpecError, match=r"supports tokens up to 65,535.*tokenBytes: 4"):
            plan(path, 2)
