"""Pages about a first pipeline state the memory and CPU that its head needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline_api.objects.pipeline import PipelineSpec

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["README.md", "docs/install.md"])
def test_pages_state_the_resources_of_a_head(page: str) -> None:
    spec = PipelineSpec.model_validate({"source": {"use": "files"}, "sink": {"use": "parquet"}})
    asked = spec.ray.head.resources
    told = f"{asked.cpu:g} free cores and {asked.memory} of memory"
    assert told in (ROOT / page).read_text(encoding="utf-8")
