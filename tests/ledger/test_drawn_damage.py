"""A damaged ledger is reported in a sentence, wherever the damage is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from ledger_builders import finish_of, listed, opened
from strandline.ledger.errors import LedgerError
from strandline.ledger.records.entries import Change
from strandline.ledger.store.environment.inspection import check_image

PAGE = 4096
CASES = 120
# Reads everything in each ledger, in separate processes, because LMDB maps the damaged file.
READ = """
import os, sys
from pathlib import Path
from strandline.ledger.errors import LedgerError
from strandline.ledger.store.rows import list_rows
from strandline.ledger.store.store import Store
from strandline.storage.errors import VolumeError

def read(folder):
    try:
        store = Store(folder, readonly=True)
        store.read_meta("lease")
        list(list_rows(store))
        store.count()
        store.close()
        return 0
    except (LedgerError, VolumeError):
        return 65
    except BaseException as error:
        print(folder.name, type(error).__name__, error, flush=True)
        return 1

for folder in sorted(Path(sys.argv[1]).iterdir()):
    child = os.fork()
    if not child:
        os._exit(read(folder))
    print("end", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture
def whole(tmp_path: Path) -> bytes:
    """Return the bytes of a ledger file with a lease and three hundred finished sources."""
    with opened(tmp_path / "ledger") as store:
        store.take_lease({"attempt": 1, "uid": "a", "time": 0.0, "ended": False})
        store.write(Change(finish=[finish_of(listed(f"key {at}")) for at in range(300)]))
    return (tmp_path / "ledger/data.mdb").read_bytes()


def damage(content: bytes, random: Random) -> bytes:
    """Change random bytes, in the first pages or anywhere, or overwrite a page."""
    changed = bytearray(content)
    kind = random.randrange(3)
    if kind == 2:
        at = random.randrange(len(content) // PAGE) * PAGE
        changed[at : at + PAGE] = random.randbytes(PAGE)
    else:
        end = 2 * PAGE if kind else len(content)
        for _ in range(random.randint(1, 120)):
            changed[random.randrange(end)] = random.randrange(256)
    return bytes(changed)


def test_law_a_damaged_ledger_is_read_or_reported(whole: bytes, tmp_path: Path) -> None:
    """A page number beyond the file, which would cause a signal, is also reported in a sentence."""
    random = Random(7)
    for case in range(CASES):
        folder = tmp_path / "damaged" / f"{case:03}"
        folder.mkdir(parents=True)
        (folder / "data.mdb").write_bytes(damage(whole, random))
    done = subprocess.run(
        [sys.executable, "-c", READ, str(tmp_path / "damaged")],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    ends = [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("end ")]
    told = [line for line in done.stdout.splitlines() if not line.startswith("end ")]
    assert told == []
    assert len(ends) == CASES
    assert ends.count(65) > CASES // 4
    assert set(ends) <= {0, 65}
    assert ends.count(0) + ends.count(65) > CASES * 0.9


# Offsets in each of the first two pages: the page size, and the root of the free pages.
SIZE_AT, ROOT_AT = 16 + 24, 16 + 24 + 40


@pytest.mark.parametrize("value", [0, 1, 3, 2**31, 2**32 - 1])
def test_an_impossible_page_size_is_reported(whole: bytes, tmp_path: Path, value: int) -> None:
    changed = bytearray(whole)
    for page in (0, PAGE):
        changed[page + SIZE_AT : page + SIZE_AT + 4] = value.to_bytes(4, "little")
    (tmp_path / "data.mdb").write_bytes(changed)
    with pytest.raises(LedgerError, match="it does not start with the header of an LMDB file"):
        check_image(tmp_path / "data.mdb")


@pytest.mark.parametrize("root", [2**52, 2**61, 2**63, 2**64 - 2])
def test_a_root_beyond_the_file_is_reported(whole: bytes, tmp_path: Path, root: int) -> None:
    changed = bytearray(whole[: -2 * PAGE])
    for page in (0, PAGE):
        changed[page + ROOT_AT : page + ROOT_AT + 8] = root.to_bytes(8, "little")
    (tmp_path / "data.mdb").write_bytes(changed)
    with pytest.raises(LedgerError, match="it is truncated"):
        check_image(tmp_path / "data.mdb")
