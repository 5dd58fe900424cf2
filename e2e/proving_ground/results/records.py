"""What a user sees of a failure: that it names the cause everywhere, and a page that keeps it.

Names that differ from run to run, times and identifiers are masked. This room must not know how
the failure came about.
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
# Letters and digits that Kubernetes and KubeRay draw.
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
    """What is to be seen at one moment of a scenario.

    Attributes:
        name, title: of the page.
        says: what `kubectl describe` must say.
        event: what an event of the pipeline must say.
        metric: that must have grown by one at least since the scenario began, with its labels.
    """

    name: str
    title: str
    says: str
    event: str
    metric: str


@dataclass(frozen=True, slots=True)
class Records:
    """Pages that show what a user sees.

    Attributes:
        is_update: write those anew that are there.
    """

    is_update: bool

    def take(self, ground: Ground, story: Story, name: str, title: str) -> None:
        """Assert that the first attempt's cause is told everywhere, and keep a page on it."""
        cause = story.attempt(1)["status"]["cause"]
        attempts = _show_table(story, "get", ATTEMPT, "-o", "wide")
        assert cause in attempts, attempts
        described = (ATTEMPT, f"{story.name}-1")
        self._write(
            ground, story, Expectation(name, title, cause, cause, _count_of(cause)), described
        )

    def show(self, ground: Ground, story: Story, expectation: Expectation) -> None:
        """Record what no attempt ended with, as the pipeline shows it."""
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
    """Return the text without what differs from run to run."""
    for pattern, mark in _MASKS:
        text = pattern.sub(mark, text)
    # A word of its own: a namespace may be called as part of another word is.
    own = rf"(?<![\w-])(?<!strandline\.dev/){re.escape(namespace)}(?![\w-])"
    text = re.sub(own, "curation", text)
    return "\n".join(line.rstrip() for line in text.splitlines())


def align(table: str) -> str:
    """Return a table of kubectl's with ages masked, set anew since words have other lengths now."""
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
    """Return the pipeline's events, once one of them says so."""
    uid = story.pipeline["metadata"]["uid"]
    columns = "custom-columns=TYPE:.type,REASON:.reason,MESSAGE:.message"
    words = ("get", "events", "--field-selector", f"involvedObject.uid={uid}", "-o", columns)
    story.wait_until(
        f"an event says {output}", lambda: output in story.kube.call(*words), WAIT_SECONDS
    )
    return _show(story, *words)


def _show_table(story: Story, *words: str) -> str:
    # Masks change lengths, and columns are told apart by their layout.
    return _quote(story, words, mask(align(story.kube.call(*words)), story.kube.namespace))


def _show(story: Story, *words: str) -> str:
    return _quote(story, words, mask(story.kube.call(*words), story.kube.namespace))


def _quote(story: Story, words: tuple[str, ...], text: str) -> str:
    command = f"$ kubectl {' '.join(words)}".replace(story.pipeline["metadata"]["uid"], "<uid>")
    return f"```text\n{command}\n{text}\n```"
