"""The columns of pipelines and attempts, as the server prints them for `kubectl get`.

The golden texts have kubectl's column layout, without ages.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kube_client import KubeClient, spell_path
from recordings import Json
from strandline_api.names import ATTEMPT_LABEL

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
TIME = "2026-11-21T12:00:00Z"
LATER = "2026-11-21T12:04:00Z"


def spell_pipeline(name: str, **status: object) -> Json:
    spec: Json = {"source": {"use": "files"}, "sink": {"use": "jsonl"}}
    body = {"apiVersion": "strandline.dev/v1alpha1", "kind": "CurationPipeline", "spec": spec}
    return {**body, "metadata": {"name": name}, "status": status}


def spell_attempt(name: str, number: int, trigger: str, **status: object) -> Json:
    spec: Json = {"pipeline": "corpus", "pipelineUid": "0", "run": "first", "number": number}
    spec["trigger"] = trigger
    if number > 1:
        spec |= {"previous": number - 1, "retryCause": "OOMKilled"}
    body = {"apiVersion": "strandline.dev/v1alpha1", "kind": "CurationAttempt", "spec": spec}
    metadata = {"name": name, "labels": {ATTEMPT_LABEL: str(number)}}
    return {**body, "metadata": metadata, "status": status}


PIPELINES = [
    spell_pipeline("new"),
    spell_pipeline(
        "running",
        phase="Running",
        attempt=2,
        run="first",
        state="Attempt 2 runs. In full.",
        summary="Attempt 2 runs.",
        retries={"attempts": 2, "retries": 1, "cause": "OOMKilled", "through": 1},
        progress={
            "total": 200,
            "finished": 120,
            "failed": 1,
            "quarantined": 3,
            "redone": 40,
            "text": "120/200",
        },
        volumeClaim="running-ledger",
    ),
    spell_pipeline(
        "waiting",
        phase="Waiting",
        attempt=1,
        run="first",
        state="Attempt 2 of 7 is due. In full.",
        summary="Attempt 2 of 7 is due.",
        nextAttemptTime=LATER,
        nextStartTime=LATER,
        retries={"attempts": 1, "disruptions": 1, "cause": "Preempted", "through": 1},
        volumeClaim="waiting-ledger",
    ),
    spell_pipeline(
        "failed",
        phase="Failed",
        attempt=1,
        run="first",
        state="Attempt 1 ended: InvalidSpec. In full.",
        summary="Attempt 1 ended: InvalidSpec.",
        retries={"attempts": 1, "cause": "InvalidSpec", "through": 1},
        volumeClaim="failed-ledger",
    ),
]
ATTEMPTS = [
    spell_attempt(
        "corpus-1",
        1,
        "Run",
        phase="Failed",
        cause="OOMKilled",
        message="Group cpu was killed for want of memory.",
        startTime=TIME,
        rayJob={"name": "corpus-1", "uid": "1"},
        outcome={"exitCode": 137},
        progress={"total": 200, "finished": 80, "text": "80/200"},
        isFrozen=True,
    ),
    spell_attempt(
        "corpus-2",
        2,
        "Retry",
        phase="Running",
        startTime=TIME,
        rayJob={"name": "corpus-2", "uid": "2"},
        progress={"total": 200, "finished": 120, "text": "120/200"},
    ),
    spell_attempt("corpus-3", 3, "Manual"),
]


def show(table: Json, *, is_wide: bool) -> str:
    """Format a table as kubectl does, with a placeholder for ages."""
    shown = [
        (at, column)
        for at, column in enumerate(table["columnDefinitions"])
        if is_wide or not column.get("priority")
    ]
    lines = [[column["name"].upper() for _, column in shown]]
    lines += [
        [spell_cell(row["cells"][at], column) for at, column in shown] for row in table["rows"]
    ]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    return "".join(
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        + "\n"
        for line in lines
    )


def spell_cell(cell: object, column: Json) -> str:
    if cell in {None, ""}:
        return ""
    is_age = column["type"] == "date" or column["name"] == "Age"
    return "<age>" if is_age else str(cell)


@pytest.mark.parametrize("is_wide", [False, True], ids=["plain", "wide"])
@pytest.mark.parametrize("bodies", [PIPELINES, ATTEMPTS], ids=["pipelines", "attempts"])
def test_columns_match_the_golden_files(
    bodies: list[Json],
    is_wide: bool,
    client: KubeClient,
    namespace: str,
    golden: Callable[[str, str], None],
) -> None:
    kind = bodies[0]["kind"]
    for body in bodies:
        made = client.create({**body, "status": {}}, namespace)
        if body["status"]:
            client.put_status(kind, made["metadata"]["name"], body["status"], namespace)
    table = client.ask("GET", spell_path(kind, namespace), accept=TABLE)
    width = "wide" if is_wide else "plain"
    golden(f"apiserver/{kind.lower()}s-{width}.txt", show(table, is_wide=is_wide))
