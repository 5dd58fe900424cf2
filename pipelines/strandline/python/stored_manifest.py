"""Writes the manifest of a pipeline that was built in Python, so that commands find its results.

A stage that no module names, such as a function of a notebook, appears by its name. Commands that
load stages then refuse the manifest; the methods of `Pipeline` still work.
"""

from __future__ import annotations

from typing import Any

import yaml

from strandline.plan.pipeline import PipelinePlan, StagePlan
from strandline.storage.layout import PipelineFolder, make_folder
from strandline.storage.outputs.disk.whole_files import show_whole
from strandline_api.spec.work import default_name

_HEAD = "# Written by `Pipeline.run`, for commands such as `strandline failures VOLUME/NAME`.\n"


def write_manifest(folder: PipelineFolder, plan: PipelinePlan, settings: dict[str, Any]) -> None:
    """Write the manifest of a plan into its folder.

    Args:
        settings: further fields of the manifest's `spec`.

    Raises:
        VolumeError: the folder can't be written.
    """
    *stages, sink = map(_describe, plan.stages)
    spec = {"source": _describe(plan.source), "stages": stages, "sink": sink, **settings}
    document = {
        "apiVersion": "strandline.dev/v1alpha1",
        "kind": "CurationPipeline",
        "metadata": {"name": plan.name, "namespace": plan.namespace},
        "spec": spec,
    }
    make_folder(folder.path)
    show_whole(folder.manifest, (_HEAD + yaml.safe_dump(document, sort_keys=False)).encode())


def _describe(plan: StagePlan) -> dict[str, Any]:
    """Return a stage as in a manifest, without settings that have no effect on results."""
    params = plan.stage.params.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    item: dict[str, Any] = {"use": plan.use}
    if plan.name != default_name(plan.use):
        item["name"] = plan.name
    item |= {"with": params} if params else {}
    if plan.on_error != "fail":
        item["onError"] = plan.on_error
    if plan.tolerates is not None:
        item["tolerateRows"] = plan.tolerates
    return item
