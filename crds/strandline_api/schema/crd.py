"""Builds the CRDs of both kinds as dictionaries.

This module adds columns, selectable fields, and rules to the schemas. It must not depend on how a
dictionary is written to a file.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel

from strandline_api.names import ATTEMPT, CATEGORY, GROUP, PIPELINE, VERSION, Kind
from strandline_api.objects.attempt import CurationAttempt
from strandline_api.objects.pipeline import AFTER_ITSELF, CurationPipeline
from strandline_api.schema.defaults import Schema, insert_defaults
from strandline_api.schema.openapi import structural_schema


class Column(NamedTuple):
    """A column of `kubectl get`."""

    name: str
    type: str
    path: str
    description: str


# Columns with future times must be text: kubectl shows a future date in a date column as invalid.
PIPELINE_COLUMNS = (
    Column("Phase", "string", ".status.phase", "Current phase."),
    Column("Attempt", "integer", ".status.attempt", "Number of the latest attempt."),
    Column("Progress", "string", ".status.progress.text", "Finished sources out of all."),
    Column("Next", "string", ".status.nextStartTime", "When the next attempt starts."),
    Column("State", "string", ".status.summary", "The current activity, in short."),
    Column("Age", "date", ".metadata.creationTimestamp", "Time since creation."),
)
PIPELINE_WIDE_COLUMNS = (
    Column("Cause", "string", ".status.retries.cause", "Why the last attempt ended."),
    Column("Run", "string", ".status.run", "Name of the current run."),
    Column("Claim", "string", ".status.volumeClaim", "Claim that holds the ledger."),
    Column("Failed", "integer", ".status.progress.failed", "Failed sources."),
    Column("Quarantined", "integer", ".status.progress.quarantined", "Quarantined sources."),
    Column("Retries", "integer", ".status.retries.retries", "Retries since progress."),
    Column(
        "Redone",
        "integer",
        ".status.progress.redone",
        "Sources reprocessed after an edit.",
    ),
    Column("Details", "string", ".status.state", "The current activity, in full."),
)
ATTEMPT_COLUMNS = (
    Column("Pipeline", "string", ".spec.pipeline", "Name of the pipeline."),
    Column("Number", "integer", ".spec.number", "Number of the attempt."),
    Column("Phase", "string", ".status.phase", "Current phase."),
    Column("Cause", "string", ".status.cause", "Why the attempt failed."),
    Column("Finished", "string", ".status.progress.text", "Finished sources out of all."),
    Column("Started", "date", ".status.startTime", "Time since the RayJob was created."),
    Column("Age", "date", ".metadata.creationTimestamp", "Time since creation."),
)
ATTEMPT_WIDE_COLUMNS = (
    Column("RayJob", "string", ".status.rayJob.name", "RayJob that runs the attempt."),
    Column("Exit", "integer", ".status.outcome.exitCode", "Exit code of the driver."),
    Column("Trigger", "string", ".spec.trigger", "Why the attempt was created."),
    Column("Previous", "integer", ".spec.previous", "Number of the previous attempt."),
    Column("Message", "string", ".status.message", "The obstacle, or the cause of the end."),
)
# Generations begin at 1, so -1 never equals the generation of an object.
UNSEEN = {"observedGeneration": -1}
PIPELINE_FIELDS = (".spec.runId", ".spec.suspend", ".status.phase")
ATTEMPT_FIELDS = (
    ".spec.pipeline",
    ".spec.run",
    ".spec.number",
    ".status.phase",
    ".status.cause",
)
# The operator finds attempts by name, so the name of an attempt must match its number.
# (`endsWith('-' + ...)` would be clearer, but exceeds the API server's cost limit.)
_NUMBERED = {
    "rule": (
        "self.metadata.name.substring(self.metadata.name.lastIndexOf('-') + 1)"
        " == string(self.spec.number)"
    ),
    "message": (
        "the name must end in '-' and the attempt's number; only the operator creates attempts"
    ),
}

_NO_CIRCLE = {
    "rule": "!has(self.spec.after) || self.spec.after.all(each, each.name != self.metadata.name)",
    "message": AFTER_ITSELF,
}


def pipeline_definition() -> Schema:
    """Return the CRD of `CurationPipeline`: a new dictionary in the usual order of keys."""
    columns = _columns(PIPELINE_COLUMNS, PIPELINE_WIDE_COLUMNS)
    schema = _object_schema(CurationPipeline) | {"x-kubernetes-validations": [dict(_NO_CIRCLE)]}
    # Without this default, tools that read the status would consider a new pipeline ready.
    schema["properties"]["status"]["default"] = dict(UNSEEN)
    return _definition(PIPELINE, schema, columns, PIPELINE_FIELDS)


def attempt_definition() -> Schema:
    """Return the CRD of `CurationAttempt`: a new dictionary in the usual order of keys."""
    columns = _columns(ATTEMPT_COLUMNS, ATTEMPT_WIDE_COLUMNS)
    schema = _object_schema(CurationAttempt) | {"x-kubernetes-validations": [dict(_NUMBERED)]}
    return _definition(ATTEMPT, schema, columns, ATTEMPT_FIELDS)


def _definition(
    kind: Kind, schema: Schema, columns: list[dict[str, Any]], selectable: Sequence[str]
) -> Schema:
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns,
        "selectableFields": [{"jsonPath": path} for path in selectable],
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.resource},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": _names(kind),
            "versions": [version],
        },
    }


def _names(kind: Kind) -> dict[str, Any]:
    return {
        "kind": kind.name,
        "listKind": kind.list_name,
        "singular": kind.singular,
        "plural": kind.plural,
        "shortNames": list(kind.short_names),
        "categories": [CATEGORY],
    }


def _columns(narrow: Sequence[Column], wide: Sequence[Column]) -> list[dict[str, Any]]:
    """Render the columns. Omit a priority of 0, because the API server drops it."""
    return [*map(_column, narrow), *({**_column(column), "priority": 1} for column in wide)]


def _column(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": column.type,
        "jsonPath": column.path,
        "description": column.description,
    }


def _object_schema(model: type[BaseModel]) -> Schema:
    schema = insert_defaults(structural_schema(model))
    properties = schema["properties"]
    # The API server validates these three fields itself and accepts no other schema for them.
    for name in ("apiVersion", "kind"):
        properties[name] = {"type": "string", "description": properties[name]["description"]}
    properties["metadata"] = {"type": "object"}
    schema["required"] = ["spec"]
    return schema
