"""Documents that share n-grams with benchmarks are dropped, and the benchmark is named."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_runs import StageRun
from strandline.data.files.opening import ChangedListError, UnreadableFileError
from strandline_packs.dedup.benchmark_ngrams import NgramIndex, normalise_words

QUESTION = "Which of the moons pulls the water of all seas"
ANSWER = "The only one there is pulls it twice a day"


def write(folder: Path, name: str, rows: list[dict[str, Any]] | str) -> str:
    path = folder / name
    if isinstance(rows, str):
        path.write_text(rows)
    elif name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        content = "".join(json.dumps(row) + "\n" for row in rows).encode()
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return str(path)


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("moons.jsonl", [{"question": QUESTION, "n": 1}]),
        ("moons.jsonl.gz", [{"question": QUESTION}]),
        ("moons.parquet", [{"text": QUESTION}]),
        ("moons.txt", QUESTION),
    ],
)
def test_benchmarks_of_every_format(
    run: type[StageRun], tmp_path: Path, name: str, rows: list[dict[str, Any]] | str
) -> None:
    stage = run("drop-contaminated", benchmarks=[write(tmp_path, name, rows)], n=8)
    copied = f"They asked: WHICH of the moons -- pulls, the water of {'x'}?"
    near = "They asked which of the moons pulls some water of all seas."
    assert [near, "", None] == stage.column("text", [copied, near, "", None])
    assert {f"dropped: contaminated by {name}": 1} == stage.counters


def test_question_and_answer_are_one_text(run: type[StageRun], tmp_path: Path) -> None:
    path = write(tmp_path, "qa.jsonl", [{"answer": ANSWER, "question": QUESTION}])
    stage = run("drop-contaminated", benchmarks=[path], n=6)
    assert stage.table([{"text": "water of all seas the only"}]) is None
    assert stage.table([{"text": "pulls it twice a day which"}]) is not None


def test_a_ratio_lets_quotations_pass(run: type[StageRun], tmp_path: Path) -> None:
    path = write(tmp_path, "moons.txt", QUESTION)
    text = f"{QUESTION} is asked in every book about the tides, and answered on its last page"
    strict, lenient = (
        run("drop-contaminated", benchmarks=[path], n=5, maxRatio=ratio) for ratio in (0.2, 0.3)
    )
    assert [] == strict.column("text", [text])
    assert [text] == lenient.column("text", [text])


def test_the_first_benchmark_is_counted(run: type[StageRun], tmp_path: Path) -> None:
    paths = [write(tmp_path, "a.txt", ANSWER), write(tmp_path, "b.txt", f"{QUESTION}. {ANSWER}")]
    stage = run("drop-contaminated", benchmarks=paths, n=5)
    assert [] == stage.column("text", [ANSWER, QUESTION])
    assert {"dropped: contaminated by a.txt": 1, "dropped: contaminated by b.txt": 1} == (
        stage.counters
    )


def test_a_benchmark_that_can_not_be_unpacked_is_named(run: type[StageRun], tmp_path: Path) -> None:
    path = tmp_path / "moons.jsonl.gz"
    path.write_bytes(gzip.compress(b"{}")[:10] + b"\xff" * 20)
    with pytest.raises(UnreadableFileError, match=path.name):
        run("drop-contaminated", benchmarks=[str(path)]).stage.setup()


def test_a_changed_benchmark_is_reported(run: type[StageRun], tmp_path: Path) -> None:
    path = write(tmp_path, "moons.txt", QUESTION)
    stage = run("drop-contaminated", benchmarks=[path]).stage
    before = stage.digest_inputs()
    assert [path] == list(before)
    write(tmp_path, "moons.txt", ANSWER)
    with pytest.raises(ChangedListError, match="the benchmark has changed during the run"):
        stage.setup()
    assert before != run("drop-contaminated", benchmarks=[path]).stage.digest_inputs()


def test_benchmarks_that_cannot_be_read_are_named(run: type[StageRun], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere.jsonl: No such file"):
        run("drop-contaminated", benchmarks=[str(tmp_path / "nowhere.jsonl")])
    path = write(tmp_path, "b.jsonl", [{"title": "x"}])
    with pytest.raises(
        UnreadableFileError, match=r"b.jsonl: the file has none of the columns text,"
    ):
        run("drop-contaminated", benchmarks=[path])
    path = write(tmp_path, "c.jsonl", "{")
    with pytest.raises(UnreadableFileError, match=r"c.jsonl: Expecting"):
        run("drop-contaminated", benchmarks=[path])


WORDS = st.lists(st.sampled_from(["a", "b", "c", "D"]), max_size=12)


@given(WORDS, WORDS, st.integers(1, 4))
def test_law_overlap_is_that_of_a_slow_count(text: list[str], other: list[str], n: int) -> None:
    def list_ngrams(words: list[str]) -> list[tuple[str, ...]]:
        return [tuple(words[at : at + n]) for at in range(len(words) - n + 1)]

    ngrams = list_ngrams(normalise_words(" ".join(text)))
    known = set(list_ngrams(normalise_words(" ".join(other))))
    found = [ngram in known for ngram in ngrams]
    index = NgramIndex(n, [[" ".join(other)]])
    assert len(index) == len(known)
    share, benchmark = index.measure(" ".join(text))
    assert share == (sum(found) / len(found) if found else 0)
    assert benchmark == (0 if any(found) else None)
