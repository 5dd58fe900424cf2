"""A published version breaks no client: removed and narrowed fields are detected and named."""

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from compatibility import find_breaks, flatten, spell
from strandline_api.schema.crd import attempt_definition, pipeline_definition

SNAPSHOT = "api/v1alpha1.json"
PIPELINE, ATTEMPT = pipeline_definition(), attempt_definition()
GOLDEN = Path(__file__).parents[1] / "golden"

Change = Callable[[dict[str, Any]], object]


def test_v1alpha1_changes_only_on_purpose(
    request: pytest.FixtureRequest, golden: Callable[[str, str], None]
) -> None:
    now = flatten(PIPELINE) | flatten(ATTEMPT)
    if not request.config.getoption("--update-golden"):
        before = json.loads((GOLDEN / SNAPSHOT).read_text(encoding="utf-8"))
        breaks = find_breaks(before, now)
        advice = "if nobody can rely on the old ways yet: pytest --update-golden"
        assert breaks == [], "\n".join(["this breaks clients:", *breaks, advice])
    # All other changes are compatible additions, which the diff of the golden file shows.
    golden(SNAPSHOT, spell(now))


def schema_of(definition: dict[str, Any]) -> dict[str, Any]:
    return dict(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


def spec_of(definition: dict[str, Any]) -> dict[str, Any]:
    return dict(schema_of(definition)["properties"]["spec"])


def at(definition: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the schema node of a field below `spec`, so that a test can change the CRD."""
    node = spec_of(definition)
    for name in path.split("."):
        node = node["items"] if name == "[]" else node["properties"][name]
    return node


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: spec_of(d)["properties"].pop("suspend"), "suspend is gone"),
        (lambda d: at(d, "suspend").update(type="string"), "suspend has another type: string"),
        (lambda d: spec_of(d)["required"].append("runId"), "runId is required"),
        (lambda d: at(d, "onChange")["enum"].remove("Restart"), "no longer takes Restart"),
        (lambda d: at(d, "runId").update(enum=["first"]), "no longer takes anything"),
        (lambda d: at(d, "runId").update(maxLength=62), "narrower maxLength: 62, not 63"),
        (lambda d: at(d, "runId").update(pattern="^a$"), "has another pattern"),
        (lambda d: at(d, "suspend").pop("default"), "another default: None, not False"),
        (lambda d: at(d, "runId").update(default="1st"), "another default: 1st, not first"),
        (lambda d: at(d, "stages").update(maxItems=255), "narrower maxItems"),
        (lambda d: at(d, "stages.[].batchSize").update(minimum=2), "batchSize has a narrower"),
        (lambda d: at(d, "stages").update(minItems=1), "narrower minItems: 1, not None"),
        (lambda d: at(d, "retry.maxDelay").pop("nullable"), "may no longer be null"),
        (
            lambda d: at(d, "deadlines").update({"x-kubernetes-validations": [{"rule": "false"}]}),
            "held to a new rule: false",
        ),
        (
            lambda d: at(d, "oom").update(
                required=["new"], properties=at(d, "oom")["properties"] | {"new": {}}
            ),
            "spec.oom.new is new and required",
        ),
        (lambda d: d["spec"]["names"]["shortNames"].clear(), "as cpipe is gone"),
        (
            lambda d: d["spec"]["versions"][0]["selectableFields"].pop(),
            "as --field-selector .status.phase is gone",
        ),
    ],
)
def test_a_breaking_change_is_named(change: Change, said: str) -> None:
    changed = deepcopy(PIPELINE)
    change(changed)
    (found,) = find_breaks(flatten(PIPELINE), flatten(changed))
    assert said in found


@pytest.mark.parametrize(
    "change",
    [
        lambda d: spec_of(d)["properties"].update(new={"type": "string"}),
        lambda d: at(d, "onChange")["enum"].append("Ask"),
        lambda d: at(d, "onChange").pop("enum"),
        lambda d: at(d, "runId").update(maxLength=64, description="New."),
        lambda d: at(d, "stages.[].batchSize").update(minimum=0),
        lambda d: at(d, "storage.output").pop("x-kubernetes-validations"),
        lambda d: spec_of(d)["required"].remove("sink"),
        lambda d: d["spec"]["versions"][0]["additionalPrinterColumns"].clear(),
    ],
)
def test_accepting_more_than_before_breaks_nothing(change: Change) -> None:
    changed = deepcopy(PIPELINE)
    change(changed)
    assert find_breaks(flatten(PIPELINE), flatten(changed)) == []


def test_the_snapshot_is_read_as_written() -> None:
    snapshot = flatten(ATTEMPT)
    assert json.loads(spell(snapshot)) == snapshot
    assert spell(snapshot).count("\n") == len(snapshot) + 2
