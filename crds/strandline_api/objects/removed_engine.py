"""Defines the error message for pipelines that use an engine of an earlier release.

The command line imports this module to declare options, so it must not import any model.
"""

from typing import Final

REMOVED_ENGINE: Final = "ray-data"
ENGINE_REMOVED: Final = (
    f"the engine '{REMOVED_ENGINE}' was removed; use 'ray', which continues its ledgers"
)
