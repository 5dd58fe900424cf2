"""The ledger counts the rows of a shared file that records refer to."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from example_counts import scale_examples
from ledger_builders import finish_of, listed, opened, output_of, root_of
from strandline.ledger.checks.verification import verify
from strandline.ledger.errors import LeaseLostError
from strandline.ledger.output_root import name_own_files, sweep_shared
from strandline.ledger.records.entries import Change, Finish, ListedSource, Mark, SharedFile
from strandline.ledger.store.environment import layout
from strandline.ledger.store.rows import list_rows
from strandline.ledger.store.shared import pack_shared
from strandline.ledger.store.store import Store
from strandline.plan.receipt import Output, SharedPart
from strandline.storage.outputs.disk.local_outputs import LocalOutputs
from strandline.storage.outputs.names import name_shared

FILE, OTHER = b"f" * 16, b"g" * 16
A, B, C = listed("a"), listed("b"), listed("c")


@pytest.fixture
def outputs(tmp_path: Path) -> LocalOutputs:
    return LocalOutputs(tmp_path / "output")


def share(
    outputs: LocalOutputs, file: bytes, *sources: ListedSource, rows: int = 2
) -> list[Finish]:
    """Write a shared file with `rows` rows per source. Return the changes that finish them."""
    content = b"row\n" * rows * len(sources)

    def spell(target: BinaryIO) -> None:
        target.write(content)

    with outputs.grouped() as group:
        size, digest = group.write_shared(file, ".txt", spell)
    return [
        finish_of(
            source,
            Output(
                root_of(source),
                ".txt",
                4 * rows,
                digest,
                rows,
                SharedPart(file, rows * number, size, rows * len(sources)),
            ),
        )
        for number, source in enumerate(sources)
    ]


def mark_of(source: ListedSource) -> tuple[bytes, Mark]:
    return source.source, Mark(source.key, source.version, 1, 0, is_stale=True)


def live_rows(store: Store) -> dict[bytes, int]:
    return {file: facts.live for file, facts in store.list_shared()}


def test_a_shared_file_is_known_with_its_referenced_rows(
    store: Store, outputs: LocalOutputs
) -> None:
    store.write(Change(finish=share(outputs, FILE, A, B)))
    ((file, facts),) = store.list_shared()
    name = name_shared(FILE, ".txt")
    assert (file, facts) == (FILE, SharedFile(".txt", 16, outputs.digest(name), 4, 4))
    assert [] == verify(store, outputs).problems
    assert verify(store, outputs)[:4] == (2, 1, 16, 0)


def test_a_source_back_in_flight_has_no_rows_in_a_shared_file(
    store: Store, outputs: LocalOutputs
) -> None:
    store.write(Change(finish=share(outputs, FILE, A, B)))
    store.write(Change(mark=[mark_of(A)]))
    assert live_rows(store) == {FILE: 2}
    store.write(Change(forget=[B.source]))
    assert live_rows(store) == {}


def test_a_replaced_record_refers_to_another_file(store: Store, outputs: LocalOutputs) -> None:
    store.write(Change(finish=share(outputs, FILE, A, B)))
    before = store.find_finished([A.source])
    store.write(Change(rewrite=share(outputs, OTHER, A)))
    assert live_rows(store) == {FILE: 2, OTHER: 2}
    assert store.find_finished([A.source]) == before
    assert store.find_records([A.source])[A.source].outputs[0].part == SharedPart(OTHER, 0, 8, 2)


def test_rows_are_exported_with_the_file_and_the_first_of_them(
    store: Store, outputs: LocalOutputs
) -> None:
    store.write(Change(finish=[*share(outputs, FILE, A, B), finish_of(C, output_of(C))]))
    found = {row.key: row.outputs[0] for row in list_rows(store)}
    assert [found[key]["firstRow"] for key in "ab"] == [0, 2]
    assert found["b"]["name"] == name_shared(FILE, ".txt")
    assert "firstRow" not in found["c"]


def test_a_part_is_not_in_the_sources_own_folder(outputs: LocalOutputs) -> None:
    ((_, _, record),) = share(outputs, FILE, A)
    own = output_of(A)
    assert name_own_files(record._replace(outputs=(own, *record.outputs))) == {
        own.token.hex() + own.suffix
    }


def test_an_old_ledger_has_no_shared_files(tmp_path: Path) -> None:
    with opened(tmp_path / "ledger") as store:
        env = store._env
        with env.begin(write=True) as txn:
            txn.drop(env.open_db(b"shared", txn), delete=True)
    with opened(tmp_path / "ledger", readonly=True) as store:
        assert list(store.list_shared()) == []


class TestSweeping:
    """A sweep removes exactly the files that no record names."""

    def test_a_file_without_a_receipt_is_removed(self, store: Store, outputs: LocalOutputs) -> None:
        store.write(Change(finish=share(outputs, FILE, A, B)))
        share(outputs, OTHER, C)
        assert sweep_shared(store, outputs) == 1
        assert outputs.list_shared() == [name_shared(FILE, ".txt")]
        assert sweep_shared(store, outputs) == 0

    def test_a_file_with_referenced_rows_stays(self, store: Store, outputs: LocalOutputs) -> None:
        store.write(Change(finish=share(outputs, FILE, A, B)))
        store.write(Change(mark=[mark_of(A)]))
        assert sweep_shared(store, outputs) == 0

    def test_a_writer_without_the_lease_removes_nothing(
        self, store: Store, outputs: LocalOutputs
    ) -> None:
        store.take_lease({"attempt": 1, "uid": "a"})
        share(outputs, FILE, A)
        store.write(Change(meta={"lease": {"attempt": 2, "uid": "b"}}))
        with pytest.raises(LeaseLostError):
            sweep_shared(store, outputs)
        assert len(outputs.list_shared()) == 1


class TestVerification:
    """Verification finds and names every disagreement between records and shared files."""

    def test_changed_bytes_and_sizes_are_found(self, store: Store, outputs: LocalOutputs) -> None:
        store.write(Change(finish=share(outputs, FILE, A, B)))
        name = name_shared(FILE, ".txt")
        (outputs.root / name).write_bytes(b"x" * 16)
        assert [f"changed since it was written: {name}"] == verify(store, outputs).problems
        (outputs.root / name).write_bytes(b"")
        assert [f"0 bytes instead of 16: {name}"] == verify(store, outputs).problems
        (outputs.root / name).unlink()
        assert [f"missing, or recorded twice: {name}"] == verify(store, outputs).problems

    def test_unreferenced_rows_are_found(self, store: Store, outputs: LocalOutputs) -> None:
        first, second = share(outputs, FILE, A, B)
        store.write(Change(finish=[first]))
        name = name_shared(FILE, ".txt")
        assert [f"2 rows belong to no source: {name}"] == verify(store, outputs).problems
        store.write(Change(mark=[mark_of(B)]))
        assert [] == verify(store, outputs).problems
        store.write(Change(finish=[second]))
        assert [] == verify(store, outputs).problems

    def test_rows_with_two_references_are_found(self, store: Store, outputs: LocalOutputs) -> None:
        first, second = share(outputs, FILE, A, B)
        store.write(Change(finish=[first, move(second, begin=1)]))
        name = name_shared(FILE, ".txt")
        assert [f"rows of two sources overlap: {name}"] == verify(store, outputs).problems

    def test_missing_rows_are_found(self, store: Store, outputs: LocalOutputs) -> None:
        first, second = share(outputs, FILE, A, B)
        store.write(Change(finish=[first, move(second, begin=3)]))
        (problem,) = verify(store, outputs).problems
        assert problem == f"rows beyond the end: {name_shared(FILE, '.txt')}, of source b"

    def test_an_unreferenced_file_is_found(self, store: Store, outputs: LocalOutputs) -> None:
        share(outputs, FILE, A)
        name = name_shared(FILE, ".txt")
        assert [f"left over: {name}"] == verify(store, outputs).problems
        store.write(Change(mark=[mark_of(A)]))
        assert [] == verify(store, outputs).problems

    def test_a_wrong_row_count_is_found(self, store: Store, outputs: LocalOutputs) -> None:
        store.write(Change(finish=share(outputs, FILE, A, B)))
        ((_, facts),) = store.list_shared()
        with store._env.begin(write=True) as txn:
            txn.put(FILE, pack_shared(facts._replace(live=3)), db=store._dbs.shared)
        assert [f"3 rows should have a record, but 4 have one: {name_shared(FILE, '.txt')}"] == (
            verify(store, outputs).problems
        )


def move(finish: Finish, begin: int) -> Finish:
    (output,) = finish.record.outputs
    assert output.part is not None
    moved = output._replace(part=output.part._replace(begin=begin))
    return finish._replace(record=finish.record._replace(outputs=(moved,)))


SOURCES = [listed(str(number)) for number in range(8)]
MOVES = st.lists(
    st.tuples(
        st.sampled_from(["finish", "mark", "forget", "rewrite"]),
        st.lists(st.sampled_from(SOURCES), min_size=1, max_size=4, unique=True),
    ),
    max_size=12,
)


@settings(max_examples=scale_examples(30), deadline=None)
@given(moves=MOVES, large=st.sampled_from([2, layout.LARGE]))
def test_law_live_rows_of_a_file_equal_its_referenced_rows(
    moves: list[tuple[str, list[ListedSource]]],
    large: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The law also holds in a ledger that is converted to the second format during the changes."""
    path = tmp_path_factory.mktemp("ledger")
    finished: set[bytes] = set()
    with pytest.MonkeyPatch.context() as monkeypatch, opened(path) as store:
        monkeypatch.setattr(layout, "LARGE", large)
        store.take_lease({"attempt": 1, "uid": "a"})
        for number, (kind, drawn) in enumerate(moves):
            may_be = {"finish": {False}, "rewrite": {True}}.get(kind, {False, True})
            chosen = [each for each in drawn if (each.source in finished) in may_be]
            file, rows = bytes([number]) * 16, len(chosen)
            records = [
                finish_of(each, output_of(each)._replace(part=SharedPart(file, at, 3 * rows, rows)))
                for at, each in enumerate(chosen)
            ]
            keys = {each.source for each in chosen}
            finished = finished | keys if kind in {"finish", "rewrite"} else finished - keys
            store.write(
                {
                    "finish": Change(finish=records),
                    "rewrite": Change(rewrite=records),
                    "mark": Change(mark=[mark_of(each) for each in chosen]),
                    "forget": Change(forget=[each.source for each in chosen]),
                }[kind]
            )
            named = Counter(
                output.part.file
                for _, _, record in store.list_records()
                for output in record.outputs
                if output.part is not None
            )
            assert live_rows(store) == dict(named)
