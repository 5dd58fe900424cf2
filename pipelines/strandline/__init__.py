"""Strandline: resumable data curation on Ray.

Only the names in `__all__` are public. Each is imported on first use, so importing the package is
cheap and a worker never imports the command line or the run.
"""

from __future__ import annotations

from importlib import import_module

from strandline.plan.lazy_names import load_lazily

# Do not import `typing` at run time: the command imports this module before it handles Ctrl-C.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from strandline.data.tables.row_filter import JudgedRows, RowFilter
    from strandline.ledger.access.lease import OnChange
    from strandline.plan.stages.columns import Columns
    from strandline.plan.stages.ends import SharingSink, SinkStage, Source, SourceStage
    from strandline.plan.stages.packs import Dependency, Pack
    from strandline.plan.stages.registry import register
    from strandline.plan.stages.stage import Params, Stage, StatefulFilter
    from strandline.plan.task import FailedRow, FailedTask, NoneTask, Task
    from strandline.python.outcome import Outcome
    from strandline.python.pipeline import Pipeline, work
    from strandline.storage.outputs.manifest import list_outputs
    from strandline_api.outcome.exit_codes import ExitCode
    from strandline_api.spec.policy import Checkpoint, Quarantine

    __version__: str

__all__ = [
    "Checkpoint",
    "Columns",
    "Dependency",
    "ExitCode",
    "FailedRow",
    "FailedTask",
    "JudgedRows",
    "NoneTask",
    "OnChange",
    "Outcome",
    "Pack",
    "Params",
    "Pipeline",
    "Quarantine",
    "RowFilter",
    "SharingSink",
    "SinkStage",
    "Source",
    "SourceStage",
    "Stage",
    "StatefulFilter",
    "Task",
    "__version__",
    "list_outputs",
    "register",
    "work",
]

_ROOMS = {
    "Checkpoint": "strandline_api.spec.policy",
    "Columns": "strandline.plan.stages.columns",
    "Dependency": "strandline.plan.stages.packs",
    "ExitCode": "strandline_api.outcome.exit_codes",
    "FailedRow": "strandline.plan.task",
    "FailedTask": "strandline.plan.task",
    "JudgedRows": "strandline.data.tables.row_filter",
    "NoneTask": "strandline.plan.task",
    "OnChange": "strandline.ledger.access.lease",
    "Outcome": "strandline.python.outcome",
    "Pack": "strandline.plan.stages.packs",
    "Params": "strandline.plan.stages.stage",
    "Pipeline": "strandline.python.pipeline",
    "Quarantine": "strandline_api.spec.policy",
    "RowFilter": "strandline.data.tables.row_filter",
    "SharingSink": "strandline.plan.stages.ends",
    "SinkStage": "strandline.plan.stages.ends",
    "Source": "strandline.plan.stages.ends",
    "SourceStage": "strandline.plan.stages.ends",
    "Stage": "strandline.plan.stages.stage",
    "StatefulFilter": "strandline.plan.stages.stage",
    "Task": "strandline.plan.task",
    "list_outputs": "strandline.storage.outputs.manifest",
    "register": "strandline.plan.stages.registry",
    "work": "strandline.python.pipeline",
}

_load, __dir__ = load_lazily(globals(), _ROOMS)


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any of the public names
    if name == "__version__":
        return import_module("importlib.metadata").version("strandline")
    return _load(name)
