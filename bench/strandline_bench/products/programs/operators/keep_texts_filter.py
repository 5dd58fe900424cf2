"""The user's function as a batched Data-Juicer operator."""

from __future__ import annotations

from typing import Any

from data_juicer.ops.base_op import OPERATORS, Filter
from data_juicer.utils.constant import Fields

from strandline_bench.products.functions import is_kept


@OPERATORS.register_module("keep_texts_filter")
class KeepTextsFilter(Filter):  # type: ignore[misc]  # it comes without types
    """Keeps the texts that the function keeps."""

    _batched_op = True

    def compute_stats_batched(self, samples: Any, *_: Any, **__: Any) -> Any:  # noqa: ANN401 - its interface
        """Compute the user function's decision for each text."""
        for text, stats in zip(samples[self.text_key], samples[Fields.stats], strict=True):
            stats["is_kept"] = is_kept(text)
        return samples

    def process_batched(self, samples: Any) -> Any:  # noqa: ANN401 - its interface
        """Return the computed decisions."""
        return [stats["is_kept"] for stats in samples[Fields.stats]]
