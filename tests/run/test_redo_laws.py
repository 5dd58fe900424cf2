"""Laws of a redo: the result equals a fresh run, even if runs crash at any step."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from example_counts import scale_examples
from number_runs import Item
from pipeline_runs import crashing_at
from strandline_api.outcome.exit_codes import ExitCode
from tuning import FILES, NAME, SHARED, Tuning, add, below

pytestmark = pytest.mark.first(reason="compares each redo with a fresh run")


@pytest.fixture
def tuning(tmp_path: Path) -> Tuning:
    return Tuning(tmp_path)


CHAINS = st.lists(
    st.tuples(st.sampled_from(["add", "below", "part", "join"]), st.booleans()),
    min_size=1,
    max_size=4,
)
EDITS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40)), min_size=1, max_size=3)


def make_chain(chain: list[tuple[str, bool]], values: list[int]) -> list[Item]:
    """Return the items of a chain. Stages after two fan-outs cannot keep their output."""
    items: list[Item] = []
    for at, (kind, keep) in enumerate(chain):
        kinds: dict[str, Item] = {
            "add": {"use": "tuned_stages:Add", "with": {"by": values[at]}},
            "below": {"use": "tuned_stages:KeepBelow", "with": {"limit": values[at]}},
            "part": {"use": "tuned_stages:Part", "with": {"rows": values[at]}},
            "join": {"use": "tuned_stages:Add", "with": {"by": values[at]}, "group": 4},
        }
        fans = 1 + sum(before in {"part", "join"} for before, _ in chain[: at + 1])
        joins = any(after == "join" for after, _ in chain[at + 1 :])
        items.append({**kinds[kind], "name": f"s{at}", "keep": keep and not (fans > 1 and joins)})
    total = {"use": "tuned_stages:Total"}
    return [{**total, "name": "first"}, *items, {**total, "name": "last"}]


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=scale_examples(12))
@given(CHAINS, EDITS, st.booleans())
@example([("add", True), ("join", False)], [(1, 9)], False)  # the rows must be joined in order
def test_law_a_redo_equals_a_fresh_run(
    chain: list[tuple[str, bool]], edits: list[tuple[int, int]], is_shared: bool
) -> None:
    sink = SHARED if is_shared else {"use": "parquet"}
    values = [5, 30, 7, 11]
    with TemporaryDirectory() as folder:
        tuning = Tuning(Path(folder))
        tuning.reader = {"use": "read-jsonl", "with": {"maxRows": 6}}
        tuning.run(*make_chain(chain, values), sink=sink)
        for at, value in edits:
            values[at] = value
            assert ExitCode.COMPLETE is tuning.run(*make_chain(chain, values), sink=sink)
            tuning.check()
        tuning.run(*make_chain(chain, values), sink=sink, name="fresh")
        assert tuning.read("fresh") == tuning.read()
        assert tuning.read_files("fresh") == tuning.read_files()
        assert tuning.read_totals("fresh") == tuning.read_totals()


@pytest.mark.parametrize("sink", [{"use": "parquet"}, SHARED])
@pytest.mark.parametrize("at", range(0, 60, 3))
def test_law_a_crash_anywhere_leaves_no_source_with_mixed_recipes(
    tuning: Tuning, at: int, sink: Item, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = add(1, keep=True), {"use": "tuned_stages:Total", "name": "total"}
    tuning.run(*chain, below(1000), sink=sink)
    with crashing_at(at, monkeypatch):
        tuning.run(*chain, add(100, keep=True, name="more"), below(1000), sink=sink)
    with tuning.passes.opened(NAME) as store:
        attempts = {record.key: entry.attempt for _, entry, record in store.list_records()}
    assert len(attempts) == FILES
    # A killed attempt may leave files, but all files in the ledger must be intact.
    assert not [line for line in tuning.passes.find_problems(NAME) if "bytes" in line]
    assert not [line for line in tuning.passes.find_problems(NAME) if "missing" in line]
    assert ExitCode.COMPLETE is tuning.run(
        *chain, add(100, keep=True, name="more"), below(1000), sink=sink
    )
    assert sorted(n for _, n in tuning.read()) == list(range(101, 161))
    assert [str(sum(range(1, 61))).encode()] == tuning.read_totals()
    assert 2 * FILES == len(tuning.cuts)
    tuning.check()


@pytest.mark.parametrize("at", range(12, 46))
def test_law_a_change_reverted_after_a_crash_leaves_nothing(
    tuning: Tuning, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuning.run(add(1, keep=True), below(50))
    before = tuning.read()
    with crashing_at(at, monkeypatch):
        tuning.run(add(1, keep=True), below(10))
    assert ExitCode.COMPLETE is tuning.run(add(1, keep=True), below(50))
    assert before == tuning.read()
    tuning.check()
