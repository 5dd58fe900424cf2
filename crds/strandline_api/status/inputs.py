"""Records the state of other pipelines that a run reads, as of the start of the run.

The status keeps these records, so retries read the same data, and a later run can detect newer
data. This module must not depend on the location of outputs, or on which pipeline waits for which.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from strandline_api.api_model import keyed_by
from strandline_api.status.records import Count, Name, Record, keep_first

# Maximum number of pipelines in `after` and in parameters.
MAX_INPUTS = 64
_MAX_LOCATION = 2048


class InputRecord(Record):
    """Another pipeline that precedes a run."""

    always: ClassVar[frozenset[str]] = frozenset({"pipeline"})

    pipeline: Name = Field(description="Name of the pipeline.")
    uid: Annotated[str, Field(max_length=128)] = Field(
        default="",
        description="Uid of the pipeline. A later pipeline of the same name has another one.",
    )
    run: Name = Field(default="", description="Name of its latest run at that time.")
    generation: Count | None = Field(
        default=None, description="The metadata.generation of the pipeline."
    )
    published: Annotated[str, Field(max_length=253)] = Field(
        default="",
        description="Its newest publication, such as 'attempts/0003/p0007'. Absent if unknown.",
    )
    output: Annotated[str, Field(max_length=_MAX_LOCATION)] = Field(
        default="",
        description=(
            "Folder or URL of its outputs, as seen by pods of this pipeline. Absent if the pods "
            "cannot reach them."
        ),
    )
    output_claim: Name = Field(
        default="",
        description="Persistent volume claim that has to be mounted for that. Absent for a URL.",
    )
    ledger_claim: Name = Field(
        default="", description="Persistent volume claim that holds its ledger and artifacts."
    )

    def is_newer(self, former: InputRecord) -> bool:
        """Return True if this input differs from a former record, and so is newer."""
        return (self.uid, self.run, self.generation, self.published) != (
            former.uid,
            former.run,
            former.generation,
            former.published,
        )


Inputs = Annotated[tuple[InputRecord, ...], Field(max_length=MAX_INPUTS), keep_first(MAX_INPUTS)]


def list_inputs(description: str) -> Any:  # noqa: ANN401 - as pydantic's Field
    """Declare a field of inputs for a spec or status. Each pipeline occurs at most once."""
    return Field(
        default=(),
        json_schema_extra=keyed_by("pipeline"),
        description=description,
    )
