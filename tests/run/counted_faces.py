"""Compares the numbers of a pipeline on all commands and pages with a count of its files."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import takewhile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from click.testing import CliRunner

from number_runs import Item
from strandline.cli.app.commands import program
from strandline.plan.token import digest_key
from strandline.storage.outputs.names import DEAD_LETTERS, DESCRIPTIONS
from tuning import NAME, Tuning

Faces = dict[str, Any]
STATES = ("finished", "failed", "inflight", "quarantined")


def keep(limit: int, *, name: str = "limit", keeps: bool = False, **params: Any) -> Item:
    """Return a filter that keeps numbers below a limit and counts the rows it drops."""
    options = {"where": f"n < {limit}", "reason": "too large", **params}
    return {"use": "keep-rows", "name": name, "with": options, "keep": keeps}


class CountedRuns(Tuning):
    """A pipeline over files of numbers, with the numbers that users see."""

    def call(self, *words: str) -> str:
        """Return the output of a command that is run on the pipeline."""
        said = [word for each in words for word in each.split()]
        command = list(takewhile(lambda word: not word.startswith("-"), said))
        paths = [str(self.passes.folder / f"{NAME}.yaml"), "--volume", str(self.passes.volume)]
        result = CliRunner().invoke(program, [*command, *paths, *said[len(command) :]])
        assert result.exit_code == 0, result.output
        return result.stdout

    def read_json(self, *words: str) -> list[Any]:
        """Return the lines that a command prints as parsed JSON."""
        return [json.loads(line) for line in self.call(*words, "--json").splitlines()]

    def read_faces(self) -> Faces:
        """Return the counts of all commands and pages, without values that differ between runs."""
        (stats,) = self.read_json("ledger stats")
        (plan,) = self.read_json("plan")
        return {
            "card": read_card_table(self.call("card --out -")),
            "report": read_report_section(self.call("report --out -"), "funnel"),
            "stats": drop_names(stats),
            "plan": drop_names(plan["ledger"]),
            "top": re.findall(r"ledger: .*", self.call("top --once")),
            "sources": sorted(
                (Path(row["key"]).name, row["state"], count_listed_rows(row["outputs"]))
                for row in self.read_json("ledger sources")
            ),
            "failures": [drop_names(group) for group in self.read_json("failures")],
            "dropped": [(row["reason"], row["count"]) for row in self.read_json("dropped")[0]],
        }

    def check_agreement(self) -> None:
        """Check that all commands and pages show the same numbers, and that the files match."""
        faces, hand = self.read_faces(), self.count_by_hand()
        stats = faces["stats"]
        listed = Counter(state for _, state, _ in faces["sources"])
        counts = {state: listed[state] for state in STATES}
        assert counts == {state: stats[state] for state in STATES}
        assert counts == {state: faces["plan"][state] for state in STATES}
        words = ", ".join(f"{number} {state}" for state, number in counts.items())
        assert faces["top"] == [f"ledger: {words}"]
        assert stats["listed"] == listed.total()
        words = f"Sources: {stats['listed']} listed, {stats['finished']} finished"
        assert f"{words}, {stats['failed']} failed" in " ".join(faces["report"])
        assert (stats["rows"], stats["deadLetters"]) == (hand["data"], hand["dead"])
        assert sum(rows for *_, rows in faces["sources"]) == hand["data"]
        assert faces["card"][0].startswith(f"{hand['data']} row")
        *_, sink = read_rows(faces["card"])
        assert sink == ("parquet", hand["data"], hand["data"], 0)
        assert sum(dead for *_, dead in read_rows(faces["card"])) == hand["dead"]
        letters = [group["count"] for group in faces["failures"] if group["state"] == "dead"]
        assert sum(letters) == hand["dead"]

    def count_by_hand(self) -> Counter[str]:
        """Count the rows in the existing files, separately for readers and for dead letters.

        If a source has no valid outputs, the files of its former version remain but do not count.
        """
        rows: Counter[str] = Counter()
        former = {
            digest_key(each["key"]).hex()
            for each in self.read_json("ledger sources")
            if not each["outputs"]
        }
        for path in self.output.rglob("*.parquet"):
            if path.parent.name in former:
                continue
            where = path.relative_to(self.output).as_posix()
            if where.startswith(DEAD_LETTERS):
                rows["dead"] += pq.read_metadata(path).num_rows
            elif not where.startswith(DESCRIPTIONS):
                rows["data"] += pq.read_metadata(path).num_rows
        return rows


def read_card_table(card: str) -> list[str]:
    """Return the lines of a data set's card that contain row counts."""
    section = card.partition("## Kept and dropped")[2].partition("\n## ")[0]
    # Drop the number and size of files, which depend on attempts.
    head = re.findall(r"^([\d,]+ rows?) in .*?(, of .*)", card, re.MULTILINE)
    return [*map("".join, head), *(line for line in section.splitlines() if line)]


def read_rows(card: list[str]) -> list[tuple[str, int, int, int]]:
    """Return the stages of a card with rows in, rows out, and dead letters."""
    cells = [line.strip("| ").split(" | ") for line in card if line.startswith("| ")]
    return [
        (name, int(rows_in), int(rows_out), int(dead))
        for name, rows_in, rows_out, dead, *_ in cells
        if dead.isdigit()
    ]


def read_report_section(page: str, name: str) -> list[str]:
    """Return the pieces of text in a section of a report."""
    section = page.partition(f'<section id="{name}"')[2].partition("</section>")[0]
    return [text for text in re.split(r"<[^>]*>", section) if text.strip()]


def count_listed_rows(outputs: list[dict[str, Any]]) -> int:
    """Return how many rows for readers the listed outputs of `ledger sources` have."""
    return sum(each["rows"] for each in outputs if not {"deadLettersOf", "keptOf"} & each.keys())


def drop_names(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts that are equal in a resumed run and a fresh run."""
    volatile = {"ledger", "attempt", "bytes", "run", "pipeline", "ended", "example", "files"}
    return {name: value for name, value in facts.items() if name not in volatile}


def find_words(folder: Path, words: tuple[str, ...]) -> list[str]:
    """Return the names of the text files below a folder that contain any of some words."""
    return [
        path.name
        for path in folder.rglob("*")
        if path.is_file() and any(word.encode() in path.read_bytes() for word in words)
    ]
