"""Builds short forms of a state for a terminal column, instead of truncating the state.

A state has several short forms, and the column shows the first form that fits. This module must not
depend on the meaning of the state.
"""

from __future__ import annotations

import re

from strandline_api.status.reasons import Reason
from strandline_api.status.records import MAX_SUMMARY
from strandline_operator.decide.obstacles.obstacles import Block
from strandline_operator.integrations.schedulers import list_names

_WORD_START = re.compile(r"(?<=[a-z])(?=[A-Z])")
_ENDING = re.compile(r"attempt \d+ ended with \w+")


def choose_form(*forms: str) -> str:
    """Return the first form that is not empty and fits into a line of the column."""
    return next((form for form in forms if form and _fits(form)), "")


def _fits(form: str) -> bool:
    return len(form) <= MAX_SUMMARY and "\n" not in form


def list_block_forms(block: Block, prefix: str = "") -> tuple[str, ...]:
    """Return short forms of an obstacle: without advice, without details, and the reason only."""
    meaning = block.reason.meaning.rstrip(".")
    # Product names keep their capital letters inside a sentence.
    if not meaning.startswith(("KubeRay", *list_names())):
        meaning = f"{meaning[:1].lower()}{meaning[1:]}"
    detail = block.detail.rstrip(".")
    whole = f"{meaning}: {detail}" if detail else ""
    forms = (whole, meaning, meaning.replace(" of the attempt", ""), _split(block.reason))
    return tuple(f"{prefix}{form}" for form in forms if form)


def list_queue_forms(block: Block, prefix: str) -> tuple[str, ...]:
    """Return short forms of a wait in a queue: the reason, or the queue and the start time."""
    queue, _, rest = block.detail.partition(" since ")
    time, _, why = rest.partition(": ")
    name = queue.rpartition(" ")[2]
    forms = (f"queued: {why}" if why else "", f"queued in {name} since {time[11:]}", "queued")
    return tuple(f"{prefix}{form}" for form in forms if form)


def list_wait_forms(block: Block) -> tuple[str, ...]:
    """Return short forms of a wait for other pipelines: their names, or how many there are."""
    names = [each.partition(" (")[0] for each in block.detail.split("; ")]
    number = f"{len(names)} other pipelines" if len(names) > 1 else "another pipeline"
    return f"waits for {', '.join(names)}", f"waits for {number}"


def list_failure_forms(message: str, cause: str) -> tuple[str, ...]:
    """Return short forms of the reason why a run failed."""
    ending, clause = _ENDING.match(message), message.partition("; ")[0]
    return tuple(filter(None, (clause, ending and ending[0], f"failed with {cause}")))


def list_problem_forms(problems: tuple[str, ...]) -> tuple[str, ...]:
    """Return short forms of problems in a spec: the first field, or a general text."""
    field = problems[0].partition(": ")[0] if problems else ""
    more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
    named = f"invalid spec: {field}{more}" if field and " " not in field else ""
    return tuple(filter(None, (named, "the spec is invalid")))


def _split(reason: Reason) -> str:
    """Split a reason into words: `ImageNotPulled` becomes `image not pulled`."""
    return _WORD_START.sub(" ", reason.value).lower()
