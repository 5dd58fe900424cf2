"""Tokens identify nodes: the same on every replay, different for every node."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.plan.token import derive_child, derive_root, digest_key, digest_version

token = st.binary(min_size=16, max_size=16)
node = st.tuples(
    st.lists(token, min_size=1, max_size=3), st.text("ab", max_size=3), st.integers(0, 9)
)


@given(first=node, second=node)
def test_children_have_one_name_each(
    first: tuple[list[bytes], str, int], second: tuple[list[bytes], str, int]
) -> None:
    assert (derive_child(*first) == derive_child(*second)) == (first == second)
    assert len(derive_child(*first)) == 16


@given(token, st.binary(min_size=8, max_size=8), st.binary(min_size=8, max_size=8))
def test_a_new_version_gets_a_new_root(source: bytes, old: bytes, new: bytes) -> None:
    assert (derive_root(source, old) == derive_root(source, new)) == (old == new)


@given(st.text(), st.text())
def test_different_keys_and_versions_have_different_digests(one: str, other: str) -> None:
    assert (digest_key(one) == digest_key(other)) == (one == other)
    assert (digest_version(one) == digest_version(other)) == (one == other)


def test_names_do_not_change_between_releases() -> None:
    """A ledger and its outputs outlive the program version that wrote them."""
    source = digest_key("a/path.py")
    root = derive_root(source, digest_version("12+34"))

    assert source.hex() == "7670030fb52b21e19b30060ffc2d17cd"
    assert root.hex() == "65f822f1f31b4549021620a9f2069ef9"
    assert derive_child([root], "split", 3).hex() == "c7a9b8ff7b2975d05bc2f001d7bda94d"
