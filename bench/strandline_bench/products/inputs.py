"""Generates the inputs of each job. The same arguments give the same files."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from PIL import Image

from strandline_bench.text.documents import generate_documents, list_documents

FILES = 20
_LEAST_WORDS = 5
_EQUAL, _NEAR = 0.2, 0.2  # shares of exact and near copies among the documents
_SIDES = (8, 640)
_LAPS = 6  # repetitions of ten seconds


def write_documents(folder: Path, count: int) -> None:
    """Write generated texts as JSON Lines."""
    texts = generate_documents(["A text of a document that is there."], seed=1)
    _write_rows(folder, ({"text": next(texts), "score": at / 7} for at in range(count)))


def write_long_documents(folder: Path, count: int) -> None:
    """Write generated texts of a kilobyte each as JSON Lines."""
    texts = generate_documents(["A text of a document that is there."], seed=1)
    _write_rows(folder, ({"text": f"{next(texts)}\n{next(texts)}"} for _ in range(count)))


def write_prose(folder: Path, count: int) -> None:
    """Write texts that filters keep in part: from this machine, and generated from its words."""
    found = list(filter(None, list_documents(min(2 * count, 4_000))))
    made = generate_documents(found, seed=2)
    texts = (text for text in made if len(text.split()) >= _LEAST_WORDS)
    _write_rows(folder, ({"text": text} for text in islice(texts, count)))


def write_copies(folder: Path, count: int) -> None:
    """Write texts, among them exact and near copies."""
    _write_rows(folder, _draw_copies(count))


def write_pictures(folder: Path, count: int) -> None:
    """Write pictures of many sizes, half PNG and half JPEG."""
    folder.mkdir(parents=True)
    chance = random.Random(3)  # noqa: S311 - samples, not secrets
    for at in range(count):
        size = (chance.randint(*_SIDES), chance.randint(*_SIDES))
        noise = Image.frombytes("RGB", (16, 16), chance.randbytes(16 * 16 * 3))
        suffix = "png" if at % 2 else "jpg"
        noise.resize(size, Image.Resampling.BICUBIC).save(folder / f"{at:06}.{suffix}")


def write_videos(folder: Path, count: int) -> None:
    """Write copies of a one-minute video, 640 × 360, H.264."""
    from make_videos import RATE, Scene, Video, write_video  # noqa: PLC0415 - of the examples

    folder.mkdir(parents=True)
    kinds = ("shapes", "titled")
    scenes = tuple(Scene(kind, 5 * RATE, seed) for seed in range(_LAPS) for kind in kinds)
    first = write_video(Video("0000.mp4", scenes, size=(640, 360), key_every=2 * RATE), folder)
    for at in range(1, count):
        shutil.copyfile(first, folder / f"{at:04}.mp4")


def _draw_copies(count: int) -> Iterator[dict[str, str]]:
    chance = random.Random(4)  # noqa: S311 - samples, not secrets
    made = generate_documents(["A text of a document that is there."], seed=5)
    earlier: list[str] = []
    for _ in range(count):
        drawn = chance.random()
        if earlier and drawn < _EQUAL:
            yield {"text": chance.choice(earlier)}
        elif earlier and drawn < _EQUAL + _NEAR:
            yield {"text": f"{chance.choice(earlier)} And {chance.randrange(1000)} more."}
        else:
            # Add words of letters, because normalization makes all numbers equal, and because many
            # texts share the generator's few sentences.
            words = [
                "".join(chance.choices("abcdefgh", k=5)) for _ in range(chance.randint(30, 120))
            ]
            text = f"{next(made)[:80]}\n{' '.join(words)}"
            earlier.append(text)
            yield {"text": text}


def _write_rows(folder: Path, rows: Iterable[Mapping[str, object]]) -> None:
    """Distribute rows over the files, with a key per row, which some products call an ID."""
    folder.mkdir(parents=True)
    files = [(folder / f"{at:02}.jsonl").open("w", encoding="utf-8") for at in range(FILES)]
    for number, row in enumerate(rows):
        name = f"document-{number:09}"
        line = json.dumps({"id": name, "key": name, **row}, ensure_ascii=False)
        files[number % FILES].write(f"{line}\n")
    for file in files:
        file.close()
