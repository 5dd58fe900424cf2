"""Checks that a failure's cause is visible everywhere, and writes a page with the user's view.

Generated names, times, and identifiers are masked. This module must not depend on the origin of the
failure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from proving_ground.ground import Ground
from proving_ground.story import ATTEMPT, PIPELINE, Story

PAGES = Path(__file__).parents[3] / "docs" / "failures"
WAIT_SECONDS = 30
COUNTED = "strandline_attempts_total"
# Random suffix that Kubernetes and KubeRay generate.
_DRAWN = "[bcdfghjklmnpqrstvwxz2456789]{5}"
_AGE = re.compile(r"\b(\d+d)?(\d+h)?(\d+m)?(\d+s|\dm)\b")
_MASKS = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uid>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "<time>"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "<time>"),
    (re.compile(r"\b10\.\d+\.\d+\.\d+\b"), "<address>"),
    (re.compile(rf"-(worker|head)-{_DRAWN}\b"), r"-\1-<drawn>"),
    (re.compile(rf"(-\d+)-{_DRAWN}\b"), r"\1-<drawn>"),
    (re.compile(r"\b[0-9a-f]{32,}\b"), "<id>"),
    (re.compile(r"https?://[^\s^]+"), "<url>"),
    (
        re.compile(r"^(\s*(Resource Version|Generation|Pipeline Generation):\s+)\d+", re.MULTILINE),
        r"\1<number>",
    ),
)


@dataclass(frozen=True, slots=True)
class Expectation:
    """Expected output at one moment of a scenario.

    Attributes:
        name, title: file name and title of the page.
        says: text that `kubectl describe` must contain.
        event: text that an event of the pipeline must contain.
        metric: metric with labels that must have grown by at least 1 since the scenario began.
    """

    name: str
    title: str
    says: str
    event: str
    metric: str


@dataclass(frozen=True, slots=True)
class Records:
    """Writes pages that show the user's view.

    Attributes:
        is_update: whether to rewrite existing pages.
    """

    is_update: bool

    def take(self, ground: Ground, story: Story, name: str, title: str) -> None:
        """Assert that the first attempt's cause is visible everywhere, and write a page."""
        cause = story.attempt(1)["status"]["cause"]
        attempts = _show_table(story, "get", ATTEMPT, "-o", "wide")
        assert cause in attempts, attempts
        described = (ATTEMPT, f"{story.name}-1")
        self._write(
            ground, story, Expectation(name, title, cause, cause, _count_of(cause)), described
        )

    def show(self, ground: Ground, story: Story, expectation: Expectation) -> None:
        """Record a state of the pipeline other than the end of an attempt."""
        self._write(ground, story, expectation, (PIPELINE, story.name))

    def _write(
        self, ground: Ground, story: Story, expectation: Expectation, described: tuple[str, str]
    ) -> None:
        description = _show(story, "describe", *described)
        assert expectation.says in description, description
        shown = [
            _show_table(story, "get", PIPELINE),
            _show_table(story, "get", ATTEMPT, "-o", "wide"),
            description,
            _await_event(story, expectation.event),
            _await_metric(ground, story, expectation.metric),
        ]
        self._keep(expectation.name, "\n\n".join([f"# {expectation.title}", *shown]) + "\n")

    def _keep(self, name: str, page: str) -> None:
        path = PAGES / f"{name}.md"
        if self.is_update or not path.exists():
            PAGES.mkdir(parents=True, exist_ok=True)
            path.write_text(page, encoding="utf-8")


def mask(text: str, namespace: str) -> str:
    """Replace all text that differs from run to run."""
    for pattern, mark in _MASKS:
        text = pattern.sub(mark, text)
    # Match whole words only, because another word may contain the namespace's name.
    own = rf"(?<![\w-])(?<!strandline\.dev/){re.escape(namespace)}(?![\w-])"
    text = re.sub(own, "curation", text)
    return "\n".join(line.rstrip() for line in text.splitlines())


def align(table: str) -> str:
    """Realign a kubectl table after masking its ages, because masked words change column widths."""
    lines = table.splitlines()
    starts = [found.start() for found in re.finditer(r"(?:^|(?<=  ))\S", lines[0])]
    ends = [*starts[1:], None]
    rows = [
        [line[start:end].strip() for start, end in zip(starts, ends, strict=True)] for line in lines
    ]
    rows = [rows[0], *([_AGE.sub("<age>", cell) for cell in row] for row in rows[1:])]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    cells = ([cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows)
    return "\n".join("   ".join(row).rstrip() for row in cells)


def _count_of(cause: str) -> str:
    return f'{COUNTED}{{cause="{cause}"}}'


def _await_metric(ground: Ground, story: Story, metric: str) -> str:
    story.wait_until(f"{metric} grows", lambda: ground.count_metric(metric) >= 1, WAIT_SECONDS)
    name = metric.partition("{")[0]
    return f"```text\n$ curl -s localhost:9090/metrics | grep {name}\n{metric} 1.0\n```"


def _await_event(story: Story, output: str) -> str:
    """Wait for an event of the pipeline that contains this text, and return all its events."""
    uid = story.pipeline["metadata"]["uid"]
    columns = "custom-columns=TYPE:.type,REASON:.reason,MESSAGE:.message"
    words = ("get", "events", "--field-selector", f"involvedObject.uid={uid}", "-o", columns)
    story.wait_until(
        f"an event says {output}", lambda: output in story.kube.call(*words), WAIT_SECONDS
    )
    return _show(story, *words)


def _show_table(story: Story, *words: str) -> str:
    # Mask after aligning, because masks change the lengths, and the layout identifies the columns.
    return _quote(story, words, mask(align(story.kube.call(*words)), story.kube.namespace))


def _show(story: Story, *words: str) -> str:
    return _quote(story, words, mask(story.kube.call(*words), story.kube.namespace))


def _quote(story: Story, words: tuple[str, ...], text: str) -> str:
    command = f"$ kubectl {' '.join(words)}".replace(story.pipeline["metadata"]["uid"], "<uid>")
    return f"```text\n{command}\n{text}\n```"
