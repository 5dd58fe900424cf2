"""The contract that the cluster side and the data side of Strandline both sign.

Names, exit codes, causes and the meaning of every field of the API live here; both sides import
it, and it imports neither of them.
"""

from strandline_api.causes import RETRYABLE_CAUSES, Cause, Treatment
from strandline_api.documents import SpecError, parse_pipeline
from strandline_api.exit_codes import ExitCode
from strandline_api.kinds import API_VERSION, ATTEMPT, CATEGORY, GROUP, PIPELINE, VERSION, Kind
from strandline_api.pipeline import CurationPipeline, ObjectMeta, PipelineSpec
from strandline_api.problems import Problem, did_you_mean, problems_of
from strandline_api.quantities import (
    Duration,
    PositiveDuration,
    Quantity,
    parse_cpu,
    parse_duration,
    parse_memory,
)
from strandline_api.spec_work import Resources, SinkWork, SourceWork, StageWork, WorkerBounds

__all__ = [
    "API_VERSION",
    "ATTEMPT",
    "CATEGORY",
    "GROUP",
    "PIPELINE",
    "RETRYABLE_CAUSES",
    "VERSION",
    "Cause",
    "CurationPipeline",
    "Duration",
    "ExitCode",
    "Kind",
    "ObjectMeta",
    "PipelineSpec",
    "PositiveDuration",
    "Problem",
    "Quantity",
    "Resources",
    "SinkWork",
    "SourceWork",
    "SpecError",
    "StageWork",
    "Treatment",
    "WorkerBounds",
    "did_you_mean",
    "parse_cpu",
    "parse_duration",
    "parse_memory",
    "parse_pipeline",
    "problems_of",
]
