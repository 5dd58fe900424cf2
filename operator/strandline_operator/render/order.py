"""Inputs for rendering the manifests of an attempt. All names are already decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from strandline_api.names import (
    ATTEMPT_LABEL,
    GROUP_LABEL,
    MANAGED_BY_LABEL,
    MANAGER,
    PIPELINE_LABEL,
    PIPELINE_UID_LABEL,
    ROLE_LABEL,
    format_label_value,
)
from strandline_api.objects.pipeline import PipelineSpec
from strandline_api.spec.predecessors import Reference
from strandline_operator.model.code import CodeFiles
from strandline_operator.model.cpu_rules import CpuRules
from strandline_operator.model.limits import Limits


class Role(StrEnum):
    """Role of a pod in an attempt."""

    HEAD = "head"
    WORKER = "worker"
    SUBMITTER = "submitter"


class Input(NamedTuple):
    """An input from another pipeline, as pods of this pipeline see it.

    Attributes:
        root: folder or URL of the output, or folder of the artifacts.
        claim: claim that pods must mount to read the input; empty if no mount is needed.
    """

    root: str
    claim: str = ""


@dataclass(frozen=True, slots=True)
class Order:
    """An attempt to be rendered.

    Attributes:
        name: name of the attempt's object.
        rayjob: name of its RayJob.
        uid: uid of the attempt's object.
        pipeline, pipeline_uid: name and uid of the pipeline.
        claim: name of the ledger's claim.
        manifest: the pipeline that the driver reads.
        memory: bytes by pod group, for groups whose memory differs from the spec.
        after: cause of the previous attempt's end; empty for the first attempt.
        repairs: whether it restores missing or damaged results.
        code: contents of the code ConfigMap, or None if the spec names no ConfigMap.
        inputs: inputs from other pipelines.
        run: name of its run; empty for the spec's `runId`.
        on_demand: pod groups (`head` or worker groups) that use on-demand nodes instead of spot
            nodes.
        config: name of its ConfigMap; empty to use the attempt's name.
        cpu_rules: the namespace's rules for containers without a CPU limit.
    """

    name: str
    rayjob: str
    namespace: str
    uid: str
    number: int
    pipeline: str
    pipeline_uid: str
    spec: PipelineSpec
    manifest: Mapping[str, object]
    claim: str
    limits: Limits
    memory: Mapping[str, int]
    after: str = ""
    code: CodeFiles | None = None
    inputs: Mapping[Reference, Input] = field(default_factory=dict)
    run: str = ""
    on_demand: frozenset[str] = frozenset()
    config: str = ""
    cpu_rules: CpuRules = field(default_factory=CpuRules)
    repairs: bool = False

    @property
    def config_name(self) -> str:
        """The name of the attempt's ConfigMap."""
        return self.config or self.name

    @property
    def input_claims(self) -> tuple[str, ...]:
        """Claims of other pipelines that every Ray pod mounts read-only."""
        return tuple(dict.fromkeys(each.claim for each in self.inputs.values() if each.claim))

    @property
    def labels(self) -> dict[str, str]:
        """Labels of all objects of the attempt."""
        return label_attempt(self.pipeline, self.pipeline_uid, self.number)

    def label_pod(self, role: Role, group: str | None = None) -> dict[str, str]:
        """Return the labels of the attempt's pods with the given role."""
        labels = {**self.labels, ROLE_LABEL: role.value}
        return labels if group is None else {**labels, GROUP_LABEL: group}

    def find_memory(self, group: str, own: int) -> int:
        """Return the memory of a group's pods in bytes: the raised amount, or else the spec's."""
        return max(own, self.memory.get(group, 0))


def label_pipeline(pipeline: str, uid: str) -> dict[str, str]:
    """Return the labels of all objects of a pipeline."""
    return {
        MANAGED_BY_LABEL: MANAGER,
        PIPELINE_LABEL: format_label_value(pipeline),
        PIPELINE_UID_LABEL: uid,
    }


def label_attempt(pipeline: str, uid: str, number: int) -> dict[str, str]:
    """Return the labels of all objects of one attempt of a pipeline."""
    return label_pipeline(pipeline, uid) | {ATTEMPT_LABEL: str(number)}
