"""The CustomResourceDefinition of the pipeline, as a dictionary.

Adds to the schema what the API server shows and serves. This room must not know how the
dictionary is written to a file.
"""

from typing import Any

from strandline_api.kinds import CATEGORY, GROUP, PIPELINE, VERSION, Kind
from strandline_api.pipeline import CurationPipeline
from strandline_api.schema import Schema, structural_schema

_COLUMNS = (
    ("Run", "string", ".spec.runId", "Name of the run.", 0),
    ("Suspended", "boolean", ".spec.suspend", "Whether the pipeline is held back.", 0),
    ("Source", "string", ".spec.source.use", "What lists the sources.", 1),
    ("Sink", "string", ".spec.sink.use", "What writes the results.", 1),
    ("Age", "date", ".metadata.creationTimestamp", "Time since the pipeline was made.", 0),
)
_SELECTABLE = (".spec.runId", ".spec.suspend")


def pipeline_definition() -> dict[str, Any]:
    """Write the CRD of `CurationPipeline`; a new dictionary in the order people expect."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": PIPELINE.resource},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": _names(PIPELINE),
            "versions": [_version(_object_schema())],
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


def _version(schema: Schema) -> dict[str, Any]:
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [_column(*column) for column in _COLUMNS],
        "selectableFields": [{"jsonPath": path} for path in _SELECTABLE],
        "schema": {"openAPIV3Schema": schema},
    }


def _column(name: str, type_: str, path: str, description: str, priority: int) -> dict[str, Any]:
    return {
        "name": name,
        "type": type_,
        "jsonPath": path,
        "description": description,
        "priority": priority,
    }


def _object_schema() -> Schema:
    schema = structural_schema(CurationPipeline)
    properties = schema["properties"]
    # The API server checks these three itself and allows no more to be said about them.
    properties["apiVersion"] = {
        "type": "string",
        "description": properties["apiVersion"]["description"],
    }
    properties["kind"] = {"type": "string", "description": properties["kind"]["description"]}
    properties["metadata"] = {"type": "object"}
    properties["status"].pop("default", None)
    schema["required"] = ["spec"]
    return schema
