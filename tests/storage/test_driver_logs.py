"""Logs of drivers on a volume are limited in length and number, and never end a run."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from strandline.storage.layout import PipelineFolder
from strandline.storage.volume.driver_logs import DriverLog, begin_log, list_parts

MOST = 40


def read_all(path: Path) -> bytes:
    return b"".join(part.read_bytes() for part in list_parts(path))


@given(st.lists(st.binary(min_size=1, max_size=MOST), max_size=30))
def test_law_a_log_is_bounded_and_keeps_its_last_part(pieces: list[bytes]) -> None:
    from tempfile import TemporaryDirectory  # noqa: PLC0415 - a folder for each example

    with TemporaryDirectory() as folder:
        path, written = Path(folder) / "one.log", b"".join(pieces)
        log = DriverLog(path, most=MOST)
        for piece in pieces:
            log.write(piece)
        log.close()
        kept = read_all(path)
    assert written.endswith(kept)
    assert len(kept) <= 2 * MOST
    assert len(kept) >= min(len(written), MOST)


def test_an_existing_log_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "one.log"
    for text in (b"first\n", b"second\n"):
        log = DriverLog(path)
        log.write(text)
        log.close()
    assert read_all(path) == b"first\nsecond\n"


def test_existing_bytes_count_for_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "one.log"
    path.write_bytes(b"x" * MOST)
    log = DriverLog(path, most=MOST)
    log.write(b"new")
    log.close()
    assert path.read_bytes() == b"new"
    assert read_all(path) == b"x" * MOST + b"new"


def test_the_oldest_logs_are_removed_with_both_parts(tmp_path: Path) -> None:
    folder = PipelineFolder(tmp_path)
    names = []
    for time in range(5):
        log = begin_log(folder, 1_000_000.25 + time, keep=3)
        assert log is not None
        names.append(log.path.relative_to(tmp_path).as_posix())
        log.path.with_suffix(".log.1").write_text("before")
    assert names[0] == "logs/19700112T134640.250Z.log"
    left = sorted(path.name for path in folder.logs.iterdir())
    expected = [Path(name).name for name in names[-3:]]
    assert left == sorted([*expected, *(f"{name}.1" for name in expected)])


def test_at_least_the_attempts_own_log_stays(tmp_path: Path) -> None:
    folder = PipelineFolder(tmp_path)
    begin_log(folder, 1.0, keep=0)
    log = begin_log(folder, 2.0, keep=0)
    assert log is not None
    assert [log.path] == list(folder.logs.iterdir())


def test_an_unwritable_log_does_not_end_the_run(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file stands where the folder would be")
    assert begin_log(PipelineFolder(tmp_path), 1.0, keep=3) is None
    log = DriverLog(tmp_path / "nowhere" / "one.log")
    log.write(b"text")
    log.close()
    assert list_parts(log.path) == []


def test_only_unwritable_output_is_lost() -> None:
    log = DriverLog(Path("/dev/full"))
    log.write(b"text")
    log.close()
