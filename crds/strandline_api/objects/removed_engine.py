"""The engine of earlier releases, and the message for pipelines that still name it.

The command line loads this module with its options, so it must not load any model.
"""

from typing import Final

REMOVED_ENGINE: Final = "ray-data"
ENGINE_REMOVED: Final = (
    f"the engine '{REMOVED_ENGINE}' was removed; use 'ray', which continues its ledgers"
)
