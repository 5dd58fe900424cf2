"""All exceptions that a run may raise, for use in `except` clauses.

A name is loaded on first use, so importing an exception loads only the module that defines the
exception.
"""

from typing import TYPE_CHECKING, Any
from warnings import warn

from strandline.plan.lazy_names import load_lazily

if TYPE_CHECKING:
    from strandline.engine.autoscaler.capacity import NoRoomError
    from strandline.engine.call.setup import PackageMissingError, StageSetupError
    from strandline.engine.call.stage.receipts import FlushError, ShapeError
    from strandline.engine.call.stage.stage_tally import StageBrokenError
    from strandline.engine.core.pools import PoolBrokenError
    from strandline.engine.processes.fork_client import ForkServerLostError
    from strandline.engine.ray.connection import ClusterLostError, ClusterRefusedError
    from strandline.engine.ray.engine import StoppedWithRayError
    from strandline.engine.ray.ledger_actor import LedgerLostError
    from strandline.engine.ray.local.start import RayStartError
    from strandline.ledger.errors import (
        DuplicateKeyError,
        LeaseLostError,
        LedgerError,
        LedgerInUseError,
        NegativePendingCountError,
        NonDeterministicTaskError,
    )
    from strandline.ledger.gather.merge import MergeError
    from strandline.plan.errors import (
        BudgetSpentError,
        MixtureError,
        StageInterruptedError,
        StageStoppedError,
        StrandlineError,
    )
    from strandline.run.attempt.sources.chaining import PartitionError
    from strandline.run.attempt.sources.partitions import (
        ListingError,
        SourcePathError,
    )
    from strandline.run.attempt.sources.schema_inference import SchemaInferenceError
    from strandline.run.code.packages import PackageError
    from strandline.storage.access.refusals import CredentialsRefusedError
    from strandline.storage.archives import ArchiveError
    from strandline.storage.downloads import NothingThereError, UnreachableError
    from strandline.storage.errors import HeldError, VolumeError
    from strandline.storage.outputs.ownership import PlaceTakenError, UnreadablePlaceError
    from strandline_api.documents.problems import SpecError

__all__ = [
    "ArchiveError",
    "BudgetSpentError",
    "ClusterLostError",
    "ClusterRefusedError",
    "CredentialsRefusedError",
    "DuplicateKeyError",
    "FlushError",
    "ForkServerLostError",
    "HeldError",
    "LeaseLostError",
    "LedgerError",
    "LedgerInUseError",
    "LedgerLostError",
    "ListingError",
    "MergeError",
    "MixtureError",
    "NegativePendingCountError",
    "NoRoomError",
    "NonDeterministicTaskError",
    "NothingThereError",
    "PackageError",
    "PackageMissingError",
    "PartitionError",
    "PlaceTakenError",
    "PoolBrokenError",
    "RayStartError",
    "SchemaInferenceError",
    "ShapeError",
    "SourcePathError",
    "SpecError",
    "StageBrokenError",
    "StageInterruptedError",
    "StageSetupError",
    "StageStoppedError",
    "StoppedWithRayError",
    "StrandlineError",
    "UnreachableError",
    "UnreadablePlaceError",
    "VolumeError",
]

_ROOMS = {
    "ArchiveError": "strandline.storage.archives",
    "BudgetSpentError": "strandline.plan.errors",
    "ClusterLostError": "strandline.engine.ray.connection",
    "ClusterRefusedError": "strandline.engine.ray.connection",
    "CredentialsRefusedError": "strandline.storage.access.refusals",
    "DuplicateKeyError": "strandline.ledger.errors",
    "FlushError": "strandline.engine.call.stage.receipts",
    "ForkServerLostError": "strandline.engine.processes.fork_client",
    "HeldError": "strandline.storage.errors",
    "LeaseLostError": "strandline.ledger.errors",
    "LedgerError": "strandline.ledger.errors",
    "LedgerInUseError": "strandline.ledger.errors",
    "LedgerLostError": "strandline.engine.ray.ledger_actor",
    "ListingError": "strandline.run.attempt.sources.partitions",
    "MergeError": "strandline.ledger.gather.merge",
    "MixtureError": "strandline.plan.errors",
    "NegativePendingCountError": "strandline.ledger.errors",
    "NoRoomError": "strandline.engine.autoscaler.capacity",
    "NonDeterministicTaskError": "strandline.ledger.errors",
    "NothingThereError": "strandline.storage.downloads",
    "PackageError": "strandline.run.code.packages",
    "PackageMissingError": "strandline.engine.call.setup",
    "PartitionError": "strandline.run.attempt.sources.chaining",
    "PlaceTakenError": "strandline.storage.outputs.ownership",
    "PoolBrokenError": "strandline.engine.core.pools",
    "RayStartError": "strandline.engine.ray.local.start",
    "SchemaInferenceError": "strandline.run.attempt.sources.schema_inference",
    "ShapeError": "strandline.engine.call.stage.receipts",
    "SourcePathError": "strandline.run.attempt.sources.partitions",
    "SpecError": "strandline_api.documents.problems",
    "StageBrokenError": "strandline.engine.call.stage.stage_tally",
    "StageSetupError": "strandline.engine.call.setup",
    "StageInterruptedError": "strandline.plan.errors",
    "StageStoppedError": "strandline.plan.errors",
    "StoppedWithRayError": "strandline.engine.ray.engine",
    "StrandlineError": "strandline.plan.errors",
    "UnreachableError": "strandline.storage.downloads",
    "UnreadablePlaceError": "strandline.storage.outputs.ownership",
    "VolumeError": "strandline.storage.errors",
}

# Nothing raises these since the engine `ray-data` was removed. The next minor release drops them.
_REMOVED = ("EngineMissingError", "WindowLostError")

_load, __dir__ = load_lazily(globals(), _ROOMS)


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever has the name
    if name not in _REMOVED:
        return _load(name)
    message = f"{name} is never raised, because the engine ray-data was removed"
    warn(message, DeprecationWarning, stacklevel=2)
    return type(name, (_load("StrandlineError"),), {})
