"""The previous release is installed only with settings that its own chart supports."""

from __future__ import annotations

import json
from pathlib import Path

from proving_ground.installation.chart import HASTE
from proving_ground.installation.release_before import RAY_VERSION, choose_settings


def test_settings_unknown_to_the_previous_chart_are_omitted(tmp_path: Path) -> None:
    known: dict[str, object] = {name: {} for name in (*list(HASTE)[1:], "rayVersion")}
    schema = {"properties": {"settings": {"properties": known}}}
    (tmp_path / "values.schema.json").write_text(json.dumps(schema))
    chosen = choose_settings(tmp_path)
    assert chosen == {**dict(list(HASTE.items())[1:]), "rayVersion": RAY_VERSION}
