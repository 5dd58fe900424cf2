"""Names are valid in Kubernetes, never shared by two pipelines, and never change."""

import re
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strandline_api.names import name_attempt, name_claim, name_code, name_rayjob

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
DNS_1035_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")

object_names = st.from_regex(SUBDOMAIN, fullmatch=True).filter(lambda name: len(name) <= 253)
long_names = st.builds(
    lambda name, times: (name * times)[:253].rstrip("-."), object_names, st.integers(1, 60)
)
pipelines = object_names | long_names | st.text()
# Names that differ only where names are cut, encoded, or joined with a number.
lookalikes = st.sampled_from(
    [
        "a",
        "A",
        "a-1",
        "a.1",
        "a_1",
        "1",
        "p-1",
        "corpus-" + "l" * 60,
        "corpus-" + "l" * 61,
        "corpus." + "l" * 60,
        name_rayjob("a.1", 1).removesuffix("-1"),
        name_attempt("A", 1).removesuffix("-1"),
        name_claim("A").removesuffix("-ledger"),
    ]
)
numbers = st.integers(0, 12) | st.integers(0, 10**12)
anything = pipelines | lookalikes

Namer = Callable[[str, int], str]


@given(anything, numbers)
def test_an_attempt_has_a_valid_name(pipeline: str, number: int) -> None:
    name = name_attempt(pipeline, number)
    assert SUBDOMAIN.fullmatch(name)
    assert len(name) <= 253
    assert name.endswith(f"-{number}")


@given(anything, numbers)
def test_a_rayjob_has_a_valid_name(pipeline: str, number: int) -> None:
    name = name_rayjob(pipeline, number)
    assert DNS_1035_LABEL.fullmatch(name)
    assert len(name) <= 47
    assert name.endswith(f"-{number}")


@given(anything, numbers)
def test_the_code_of_an_attempt_has_a_valid_name(pipeline: str, number: int) -> None:
    name = name_code(pipeline, number)
    assert SUBDOMAIN.fullmatch(name)
    assert len(name) <= 253
    assert name.endswith(f"-{number}-code")


@given(anything)
def test_a_claim_has_a_valid_name(pipeline: str) -> None:
    name = name_claim(pipeline)
    assert SUBDOMAIN.fullmatch(name)
    assert len(name) <= 253
    assert name.endswith("-ledger")


@pytest.mark.parametrize("namer", [name_attempt, name_rayjob, name_code])
@given(st.tuples(anything, numbers), st.tuples(anything, numbers))
@example(("a.1", 1), (name_rayjob("a.1", 1).removesuffix("-1"), 1))
@example(("A", 1), (name_attempt("A", 1).removesuffix("-1"), 1))
@example(("a-1", 1), ("a", 11))
@example(("l" * 60, 1), ("l" * 61, 1))
def test_two_attempts_never_share_a_name(
    namer: Namer, one: tuple[str, int], other: tuple[str, int]
) -> None:
    assert (namer(*one) == namer(*other)) == (one == other)


@given(anything, anything)
@example("A", name_claim("A").removesuffix("-ledger"))
def test_two_claims_never_share_a_name(one: str, other: str) -> None:
    assert (name_claim(one) == name_claim(other)) == (one == other)


@given(object_names.filter(lambda name: len(name) <= 40), st.integers(0, 999_999))
def test_a_short_name_is_kept(pipeline: str, number: int) -> None:
    assert name_attempt(pipeline, number) == f"{pipeline}-{number}"
    if DNS_1035_LABEL.fullmatch(pipeline):
        assert name_rayjob(pipeline, number) == f"{pipeline}-{number}"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (name_attempt("corpus", 3), "corpus-3"),
        (name_attempt("corpus.v2", 12), "corpus.v2-12"),
        (name_attempt("2026", 1), "2026-1"),
        (name_rayjob("corpus", 3), "corpus-3"),
        (name_rayjob("n" * 40, 1), "n" * 40 + "-1"),
        (name_claim("corpus"), "corpus-ledger"),
        (name_code("corpus", 3), "corpus-3-code"),
        # Clusters contain names with a digest, so the digests must not change.
        (name_attempt("n" * 247, 1), "n" * 228 + "-x332347d048c55d1c-1"),
        (name_attempt("Corpus", 1), "corpus-xf9eda1cca369f6da-1"),
        (name_rayjob("n" * 41, 1), "n" * 22 + "-x8208cdaa08046bb0-1"),
        (name_rayjob("n" * 41, 1_000_000), "n" * 21 + "-x8208cdaa08046bb0-1000000"),
        (name_rayjob("corpus.v2", 12), "corpus-v2-x9ee9c88b7b2f601f-12"),
        (name_rayjob("2026-corpus", 1), "p-2026-corpus-x4866220d968ac468-1"),
        (name_rayjob("corpus-x0123456789abcdef", 1), "corpus-x0123456789abcd-xc7b619fce0a7b0da-1"),
        (name_rayjob("", 1), "p-xe4a6a0577479b2b4-1"),
        (name_claim("corpus_v2"), "corpus-v2-x82b002c9f698dfaf-ledger"),
    ],
)
def test_names_never_change(name: str, expected: str) -> None:
    assert name == expected


def test_a_negative_number_is_refused() -> None:
    for namer in (name_attempt, name_rayjob, name_code):
        with pytest.raises(ValueError, match="an attempt's number must not be negative: -1"):
            namer("corpus", -1)
