"""What a user saw of a failure, kept as text in the documentation.

Names that differ from run to run, times and identifiers are masked. This room must not know how
the failure came about.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from proving_ground.story import ATTEMPT, PIPELINE, Story

_MASKS = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uid>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "<time>"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "<time>"),
    (re.compile(r"\b10\.\d+\.\d+\.\d+\b"), "<address>"),
)
_RUNNING_NUMBERS = re.compile(
    r"^(\s*(Resource Version|Generation|Observed Generation):\s+)\d+", re.MULTILINE
)


def take_record(story: Story, title: str, told: str, metrics: Iterable[str] = ()) -> str:
    """A page on what is seen of a story now.

    Args:
        told: what happened, in a sentence or two.
        metrics: lines of the operator's metrics that matter.
    """
    uid = story.pipeline["metadata"]["uid"]
    sections = [
        _show(story, "get", PIPELINE, story.name),
        _show(story, "get", ATTEMPT),
        _show(story, "describe", ATTEMPT, story.attempts[0]["metadata"]["name"]),
        _show(
            story,
            "get",
            "events",
            "--field-selector",
            f"involvedObject.uid={uid}",
            "-o",
            "custom-columns=TYPE:.type,REASON:.reason,MESSAGE:.message",
        ),
    ]
    shown = "\n".join(metrics)
    if shown:
        sections.append(f"```text\n$ curl -s localhost:9090/metrics\n{shown}\n```")
    return "\n\n".join([f"# {title}", told, *sections]) + "\n"


def keep(folder: Path, name: str, page: str, *, is_update: bool) -> None:
    """Write the page where that is asked for, or where there is none yet."""
    path = folder / f"{name}.md"
    if is_update or not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(page, encoding="utf-8")


def mask(text: str, names: Sequence[str] = ()) -> str:
    """The text without what differs from run to run.

    Args:
        names: further words to mask, such as the namespace.
    """
    for pattern, mark in _MASKS:
        text = pattern.sub(mark, text)
    text = _RUNNING_NUMBERS.sub(r"\1<number>", text)
    for name in names:
        text = text.replace(name, "curation")
    return "\n".join(line.rstrip() for line in text.splitlines())


def _show(story: Story, *words: str) -> str:
    text = mask(story.kube.say(*words), (story.kube.namespace,)).rstrip()
    asked = f"$ kubectl {' '.join(words)}".replace(story.pipeline["metadata"]["uid"], "<uid>")
    return f"```text\n{asked}\n{text}\n```"
