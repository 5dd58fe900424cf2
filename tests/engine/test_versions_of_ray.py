"""Which versions of Ray start with some of its functions replaced, and how others start."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import ray
from ray._private import node, services

from replaced_functions import FUNCTIONS, list_differences
from run_ray_versions import list_bounds, read_requirement
from strandline.engine.ray.local import start as local_start
from strandline.engine.ray.local.start import RayStartError, replaces_functions, start_local


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("2.50.0", True),
        ("2.60.0", True),
        ("2.60.7", True),
        ("2.60.0rc1", True),
        ("2.49.2", False),
        ("2.61.0", False),
        ("2.9.3", False),
        ("2.100.0", False),
        ("1.55.0", False),
        ("3.0.0.dev0", False),
        ("3.55.0", False),
        ("2", False),
        ("", False),
        ("unknown", False),
    ],
)
def test_functions_are_replaced_in_tested_versions(version: str, expected: bool) -> None:
    assert replaces_functions(version) is expected


def test_the_oldest_and_the_newest_allowed_versions_are_tested() -> None:
    oldest, newest = list_bounds(read_requirement())
    assert newest == read_requirement()
    assert replaces_functions(f"{oldest.removeprefix('ray==')}.0")
    assert list_bounds("ray>=2.9,<3") == ["ray==2.9", "ray>=2.9,<3"]


def test_the_installed_version_has_the_expected_functions() -> None:
    assert replaces_functions(ray.__version__)
    assert list_differences() == []


def test_a_missing_or_changed_function_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(services, "get_node", lambda gcs_address, node_id, timeout: None)
    monkeypatch.delattr(node.Node, "start_monitor")
    assert list_differences() == [
        "services.get_node takes ('gcs_address', 'node_id', 'timeout'), "
        "not ('gcs_address', 'node_id')",
        "node.Node.start_monitor is not there",
    ]


def watch_replaced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that collects the paths of replaced functions."""
    seen: list[str] = []
    replaced = local_start._replaced

    def note(module: str, name: str, replace: Callable[[Any], Any]) -> AbstractContextManager[None]:
        seen.append(f"{module}.{name}")
        return replaced(module, name, replace)

    monkeypatch.setattr(local_start, "_replaced", note)
    return seen


def test_every_replaced_function_is_checked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen = watch_replaced(monkeypatch)
    monkeypatch.setattr("ray.init", lambda **_: None)
    start_local(1, tmp_path)
    assert sorted(FUNCTIONS) == sorted(seen)


def test_an_unknown_version_starts_without_replaced_functions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An unknown version starts with public options only, and with Ray's own wait."""
    monkeypatch.setattr("ray.__version__", "2.9999.0")
    put: list[object] = []
    monkeypatch.setattr(
        "ray.experimental.internal_kv._internal_kv_put", lambda *words, **_: put.append(words)
    )
    seen = watch_replaced(monkeypatch)
    calls: list[dict[str, Any]] = []
    environments: list[dict[str, str]] = []

    def init(**options: Any) -> str:
        calls.append(options)
        environments.append(dict(os.environ))
        return "context"

    monkeypatch.setattr("ray.init", init)
    before = dict(os.environ)
    assert start_local(3, tmp_path, num_gpus=1) == "context"
    (options,) = calls
    assert options == {
        "address": "local",
        "num_cpus": 3,
        "num_gpus": 1,
        "_temp_dir": str(tmp_path),
        **local_start._USUAL,
    }
    assert environments == [before]
    assert (seen, put) == ([], [])
    assert list(tmp_path.iterdir()) == []  # no agent of Strandline runs


def test_a_slow_plain_start_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("ray.__version__", "2.9999.0")

    def init(**_: object) -> None:
        raise TimeoutError("The current node timed out during startup.")

    monkeypatch.setattr("ray.init", init)
    with pytest.raises(
        RayStartError, match="did not start in time, for example because the machine is busy"
    ):
        start_local(1, tmp_path)
