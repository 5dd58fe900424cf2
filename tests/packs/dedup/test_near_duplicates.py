"""Signatures, clusters of similar texts, and the list that a second pipeline drops."""

from __future__ import annotations

import hashlib
import math
import random
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatherings import Gathering
from stage_runs import StageRun
from strandline.data.files.opening import ChangedListError, UnreadableFileError
from strandline.plan.stages.registry import find_stage
from strandline_packs.dedup.key_lists import read_key_list, write_key_list
from strandline_packs.dedup.near.minhash import (
    SIGNATURE_BYTES,
    HashRuns,
    RunHasher,
    Signer,
    hash_joined_runs,
    hash_runs,
    load_datasketch,
    read_signature,
)
from strandline_packs.dedup.near.near_duplicates import (
    AmbiguousKeyError,
    cut_bands,
    find_near_duplicates,
)
from strandline_packs.dedup.near.sketch_texts import read_signatures
from strandline_packs.text.filters.words.word_rules import list_words

SIGNER = Signer(words=2)
THRESHOLD = 0.7


def write_text(seed: int, words: int = 150) -> list[str]:
    generator = random.Random(seed)
    return [f"w{generator.randrange(5_000)}" for _ in range(words)]


def change(text: list[str], number: int, seed: int = 0) -> list[str]:
    changed = list(text)
    for at in random.Random(seed).sample(range(len(text)), number):
        changed[at] = f"changed{seed}-{at}"
    return changed


def sign(text: list[str]) -> bytes:
    signature = SIGNER.sign(" ".join(text))
    assert signature is not None
    return signature


# Three clusters and two unique texts; "b0" belongs to a cluster but differs much from "b9".
TEXTS = {
    f"{letter}{at}": change(write_text(seed), 3 * at, seed=at)
    for seed, letter in enumerate("abc")
    for at in range(3)
} | {"x": write_text(100), "y": write_text(101)}
SIGNED = {key: sign(text) for key, text in TEXTS.items()}


def test_similar_texts_are_found_and_the_first_stays() -> None:
    found = find_near_duplicates(SIGNED.items(), THRESHOLD)
    assert {f"{letter}{at}": f"{letter}0" for letter in "abc" for at in (1, 2)} == found
    assert list(found) == sorted(found)


@given(st.permutations(sorted(SIGNED)))
def test_the_order_of_texts_does_not_matter(keys: list[str]) -> None:
    shuffled = [(key, SIGNED[key]) for key in keys]
    assert find_near_duplicates(SIGNED.items(), THRESHOLD) == find_near_duplicates(
        shuffled, THRESHOLD
    )


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12))
def test_one_of_equal_texts_stays(numbers: list[int]) -> None:
    texts = {f"{at:02}": sign(write_text(number)) for at, number in enumerate(numbers)}
    left = texts.keys() - find_near_duplicates(texts.items(), 0.9).keys()
    assert {numbers.index(number) for number in set(numbers)} == set(map(int, left))


def test_indirectly_similar_texts_form_one_cluster() -> None:
    chain = [write_text(1)]
    for step in range(1, 8):
        chain.append(change(chain[-1], 8, seed=step))
    signed = {str(at): sign(text) for at, text in enumerate(chain)}
    ends = read_signature(signed["0"]).jaccard(read_signature(signed["7"]))
    assert ends < THRESHOLD
    found = find_near_duplicates(reversed(signed.items()), THRESHOLD)
    assert {str(at): "0" for at in range(1, 8)} == found


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.8, 0.9, 1.0])
def test_pairs_just_above_the_threshold_are_found(threshold: float) -> None:
    generator = np.random.default_rng(8)
    agreeing = math.ceil(128 * threshold)
    signed = []
    for at in range(300):
        one = generator.integers(0, 2**32, 128, dtype="uint64").astype("<u4")
        other = one.copy()
        other[generator.choice(128, 128 - agreeing, replace=False)] ^= 1
        signed += [(f"{at}a", one.tobytes()), (f"{at}b", other.tobytes())]
    assert len(find_near_duplicates(signed, threshold)) >= 295


@pytest.mark.parametrize("threshold", [0.1, 0.2, 0.4, 0.6, 0.7, 0.85, 0.95, 1.0])
def test_bands_fit_into_a_signature_and_miss_few(threshold: float) -> None:
    number, length = cut_bands(threshold)
    assert number * length <= 128
    assert (1 - threshold**length) ** number <= 0.01


def test_within_a_cluster_a_text_is_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    def compare(one: Any, other: Any) -> float:
        compared.append(one)
        return float((one.hashvalues == other.hashvalues).mean())

    monkeypatch.setattr(load_datasketch().LeanMinHash, "jaccard", compare)
    signed = [(f"{at:03}", sign(change(write_text(1), 2, seed=at))) for at in range(100)]
    assert len(find_near_duplicates(signed, THRESHOLD)) == 99
    assert len(compared) < 110


def test_two_texts_of_one_key_are_refused() -> None:
    with pytest.raises(AmbiguousKeyError, match="two texts have the key 'a'"):
        find_near_duplicates([("a", SIGNED["a0"]), ("b", SIGNED["b0"]), ("a", SIGNED["x"])], 0.5)


@pytest.mark.parametrize("number", [0, 2, 10, 30])
def test_signatures_agree_as_much_as_texts_share_runs(number: int) -> None:
    one = write_text(7, 400)
    other = change(one, number)
    runs = set(pairwise(one)), set(pairwise(other))
    truth = len(runs[0] & runs[1]) / len(runs[0] | runs[1])
    for signer in (SIGNER, Signer(words=2, hash_runs=RunHasher())):
        signed = (signer.sign(" ".join(words)) for words in (one, other))
        mine, theirs = (read_signature(each or b"") for each in signed)
        assert truth == pytest.approx(mine.jaccard(theirs), abs=0.12)  # three deviations


def test_case_and_spacing_do_not_matter_and_no_word_is_no_signature() -> None:
    assert SIGNER.sign("The tide\n turned.") == SIGNER.sign("the TIDE turned")
    assert SIGNER.sign(" ... \n") is None
    assert SIGNER.sign("tide") is not None
    with pytest.raises(ValueError, match=f"a signature has {SIGNATURE_BYTES} bytes, not 3"):
        read_signature(b"abc")


@given(
    words=st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 3), min_size=1, max_size=12),
    size=st.integers(1, 6),
)
def test_law_equal_runs_have_one_hash_and_others_do_not(words: list[int], size: int) -> None:
    length = min(size, len(words))
    runs = [tuple(words[at : at + length]) for at in range(len(words) - length + 1)]
    hashes = hash_runs(np.array(words, np.uint64), size).tolist()
    assert len(runs) == len(hashes)
    assert len(set(runs)) == len(set(zip(runs, hashes, strict=True))) == len(set(hashes))


@pytest.mark.parametrize("hash_text", [hash_joined_runs, RunHasher()])
@given(words=st.lists(st.sampled_from("abcd"), min_size=1, max_size=30))
def test_law_all_hashes_at_once_are_signed_as_one_by_one(
    words: list[str], hash_text: HashRuns
) -> None:
    minhash = load_datasketch().MinHash(16, seed=1, scheme="affine32", hashfunc=int)
    for value in hash_text(words, 2):
        minhash.update(value)
    assert minhash.hashvalues.astype("<u4").tobytes() == Signer(2, 16, hash_text).sign(
        " ".join(words)
    )


@given(
    words=st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=12), size=st.integers(1, 8)
)
def test_law_runs_are_hashed_as_in_lists_that_are_stored(words: list[str], size: int) -> None:
    length = min(size, len(words))
    runs = {" ".join(words[at : at + length]) for at in range(len(words) - length + 1)}
    digests = (hashlib.sha1(run.encode(), usedforsecurity=False).digest() for run in runs)
    stored = {int.from_bytes(digest[:4], "little") for digest in digests}
    assert set(hash_joined_runs(words, size).tolist()) == stored


@given(text=st.text(st.characters(max_codepoint=127)))
def test_law_ascii_words_are_split_like_words_of_any_script(text: str) -> None:
    beside = f"{text} é"
    assert list_words(beside) == [*list_words(text), "é"]


def test_forgotten_words_are_hashed_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strandline_packs.dedup.near.minhash._MOST_WORDS", 3)
    text = "the tide turned and the tide turned an hour before sunrise"
    forgotten = Signer(words=2, hash_runs=RunHasher()).sign(text)
    monkeypatch.undo()
    assert forgotten == Signer(words=2, hash_runs=RunHasher()).sign(text)


def test_signatures_keep_their_values() -> None:
    signature = SIGNER.sign("the tide turned an hour before sunrise")
    assert signature is not None
    assert "835d191314498322" == signature[:8].hex()
    quick = Signer(2, hash_runs=RunHasher()).sign("the tide turned an hour before sunrise")
    assert quick is not None
    assert "7277640806c5e819" == quick[:8].hex()


@pytest.mark.parametrize("hash_runs", ["words", "sha1"])
def test_gathered_signatures_cover_all_texts(tmp_path: Path, hash_runs: str) -> None:
    gathering = Gathering(tmp_path, "sketch-texts", words=2, hash=hash_runs)
    rows = [{"key": key, "text": " ".join(text)} for key, text in TEXTS.items()]
    rows.append({"key": "empty", "text": ""})
    tables = [pa.Table.from_pylist(rows[at : at + 5]) for at in range(0, len(rows), 5)]
    pieces = gathering.pieces(tables)
    (whole,) = gathering.artifacts(gathering.merge(pieces))
    steps = gathering.merge([gathering.merge(pieces[:1]), gathering.merge(pieces[1:])])
    assert whole.read_bytes() == gathering.artifacts(steps)[0].read_bytes()
    signer = SIGNER if hash_runs == "sha1" else Signer(2, hash_runs=RunHasher())
    signed = {key: signer.sign(" ".join(text)) for key, text in TEXTS.items()}
    assert signed == dict(read_signatures(str(whole)))
    assert list(signed) == [key for key, _ in read_signatures(str(whole))]
    (nothing,) = gathering.artifacts(gathering.merge([]))
    assert [] == list(read_signatures(str(nothing)))


def test_signatures_of_earlier_releases_are_read(tmp_path: Path) -> None:
    path = str(tmp_path / "signatures.parquet")
    keys, signatures = zip(*SIGNED.items(), strict=True)
    pq.write_table(pa.table({"key": keys, "signature": signatures}), path)
    assert list(read_signatures(path)) == list(SIGNED.items())


def test_signatures_of_two_hash_functions_are_not_compared(tmp_path: Path) -> None:
    table = pa.table({"key": ["b"], "text": ["a tide"]})
    gathering = Gathering(tmp_path, "sketch-texts", words=2)
    old = gathering.write(msgpack.packb(["a", SIGNER.sign("a tide")]))  # of an earlier release
    (mixed,) = gathering.artifacts(gathering.merge([old, *gathering.pieces([table])]))
    with pytest.raises(UnreadableFileError, match="the hash functions sha1 and words can't be"):
        list(read_signatures(str(mixed)))
    (whole,) = gathering.artifacts(gathering.merge([old]))
    assert list(read_signatures(str(whole))) == [("a", SIGNER.sign("a tide"))]


def test_files_without_signatures_are_reported(tmp_path: Path) -> None:
    path = str(tmp_path / "list.parquet")
    write_key_list(path, {"b": "a"})
    with pytest.raises(
        UnreadableFileError, match=r"no column 'signature'; the columns are: key, stays"
    ):
        list(read_signatures(path))


def test_keys_that_are_numbers_are_signed_and_dropped_as_text(tmp_path: Path) -> None:
    gathering = Gathering(tmp_path, "sketch-texts", key="id")
    pieces = gathering.pieces([pa.table({"id": [5, 6], "text": ["a tide", "a tide"]})])
    (whole,) = gathering.artifacts(gathering.merge(pieces))
    found = find_near_duplicates(read_signatures(str(whole)), 0.8)
    assert {"6": "5"} == found
    path = str(tmp_path / "list.parquet")
    write_key_list(path, found)
    assert [5, 7] == StageRun("drop-listed", path=path, column="id").column("id", [5, 6, 7])


def test_listed_rows_are_dropped(tmp_path: Path) -> None:
    path = str(tmp_path / "list.parquet")
    write_key_list(path, {"b": "a", "d": "a"})
    stage = StageRun("drop-listed", path=path)
    assert ["a", "c"] == stage.column("key", ["a", "b", "c", "d"])
    assert {"dropped: listed": 2} == stage.counters
    assert [] == stage.rows([{"key": "d"}])
    assert [{"key": ["b", "d"], "stays": ["a", "a"]}] == [pq.read_table(path).to_pydict()]


def test_any_column_of_text_is_a_list(tmp_path: Path) -> None:
    path = str(tmp_path / "blocked.parquet")
    pq.write_table(pa.table({"host": ["x.org", "y.org"]}), path)
    stage = StageRun("drop-listed", path=path, pathColumn="host", column="site")
    assert ["z.org"] == stage.column("site", ["x.org", "z.org"])


def test_the_digest_depends_only_on_the_keys(tmp_path: Path) -> None:
    path = str(tmp_path / "list.parquet")

    def digest(*keys: str, stays: str = "a") -> str:
        write_key_list(path, dict.fromkeys(keys, stays))
        stage = find_stage("drop-listed")(path=path)
        assert ["path"] == list(stage.digest_inputs())
        return stage.digest_inputs()["path"]

    assert digest("b", "c") == digest("c", "b", stays="z") != digest("b") != digest("b", "cc")
    assert digest("ab", "c") != digest("a", "bc")
    # Must equal the first release's digest, so that existing runs resume.
    assert "165c627368d44b3472bbad93fbb0be14" == digest("b", "é", "c")


def test_a_list_that_changes_during_a_run_is_detected(tmp_path: Path) -> None:
    path = str(tmp_path / "list.parquet")
    write_key_list(path, {"b": "a"})
    stage = find_stage("drop-listed")(path=path)
    write_key_list(path, {"c": "a"})
    with pytest.raises(ChangedListError, match="the list has changed during the run"):
        stage.setup()


def test_an_unreadable_list_is_reported_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "list.parquet"
    with pytest.raises(ValueError, match=r"list\.parquet: No such file"):
        StageRun("drop-listed", path=str(path))
    path.write_text("no Parquet")
    with pytest.raises(UnreadableFileError, match=r"list\.parquet: .*Parquet"):
        read_key_list(str(path))
    pq.write_table(pa.table({"key": ["a", None]}), path)
    with pytest.raises(UnreadableFileError, match="a key is missing in the column 'key'"):
        read_key_list(str(path))
    with pytest.raises(UnreadableFileError, match="no column 'id'; the columns are: key"):
        read_key_list(str(path), "id")
    pq.write_table(pa.table([pa.array(["a"]), pa.array(["b"])], ["key", "key"]), path)
    with pytest.raises(UnreadableFileError, match=r"list\.parquet: there are several columns 'k"):
        read_key_list(str(path))


@pytest.mark.parametrize("error", [ImportError("Install s3fs"), ValueError("Protocol not known")])
def test_a_url_without_a_library_is_reported(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("fsspec.core.url_to_fs", refuse)
    with pytest.raises(ValueError, match=f"odd://b/x: {error}"):
        StageRun("drop-listed", path="odd://b/x")
    with pytest.raises(UnreadableFileError, match=f"odd://b/x: {error}"):
        list(read_signatures("odd://b/x"))


def test_without_the_library_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "datasketch", None)
    with pytest.raises(
        ImportError, match=r"not installed .*; pip install 'strandline\[statistics\]'$"
    ):
        StageRun("sketch-texts")
