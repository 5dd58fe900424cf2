"""After kills in each pass, FineWeb's recipe keeps the same pages as an undisturbed run."""

from __future__ import annotations

from pathlib import Path

import pytest

from recipe_kills import Recipe, kill_each_pass

PAGES = 68


@pytest.mark.full
@pytest.mark.timeout(1800)  # a dozen drivers in sequence, on a possibly busy machine
def test_a_recipe_killed_in_every_pass_keeps_the_same_pages(tmp_path: Path) -> None:
    recipe = Recipe(tmp_path, PAGES)
    recipe.run(tmp_path / "whole")
    whole = recipe.read_kept(tmp_path / "whole")
    assert whole
    assert all(recipe.count_outputs(tmp_path / "whole").values())

    result = kill_each_pass(recipe, tmp_path / "killed", whole, seed=1)

    assert result.passes == recipe.names, result
    assert result.kept > 0
    assert result.is_good, result
