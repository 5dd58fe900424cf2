"""Lists Ray's own functions that are replaced during its start, with parameters by version.

`make ray-versions` checks every version with this module, so it must not need test dependencies.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import reduce

import ray

# First version and parameters of each function, by the path below `ray._private`.
FUNCTIONS: Mapping[str, tuple[tuple[int, int], tuple[str, ...]]] = {
    "services.get_node": ((2, 50), ("gcs_address", "node_id")),
    "node.wait_for_persisted_port": (
        (2, 54),
        ("dir", "node_id", "port_name", "timeout_ms", "poll_interval_ms"),
    ),
    "node.Node.start_monitor": ((2, 50), ("self",)),
    "node.Node.start_log_monitor": ((2, 50), ("self",)),
    "node.Node.start_api_server": ((2, 50), ("self", "include_dashboard", "raise_on_failure")),
    "utils.get_dashboard_dependency_error": ((2, 50), ()),
    "utils.set_sigterm_handler": ((2, 50), ("sigterm_handler",)),
    "services._build_python_executable_command_memory_profileable": (
        (2, 50),
        ("component", "session_dir", "unbuffered"),
    ),
}


def list_differences(version: str = ray.__version__) -> list[str]:
    """Return a line for each function that this Ray lacks or that has other parameters."""
    major, minor = (int(part) for part in version.split(".")[:2])
    lines = []
    for path, (since, expected) in FUNCTIONS.items():
        function = reduce(lambda at, part: getattr(at, part, None), path.split("."), ray._private)
        if (major, minor) < since:
            continue
        if not callable(function):
            lines.append(f"{path} is not there")
        elif (parameters := tuple(inspect.signature(function).parameters)) != expected:
            lines.append(f"{path} takes {parameters}, not {expected}")
    return lines
