"""Serializes users' payloads, so that an unpicklable payload fails alone.

Ray pickles a whole result in one step, so one bad payload would fail all the others. Therefore,
payloads that are not known to be safe are pickled here, one by one. This module has no side
effects: the pickler is an argument.
"""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa

from strandline.plan.task import Task

_UNCHANGING = (pa.Table, pa.RecordBatch, bytes, str, int, float, complex, type(None))


def copy_tasks(tasks: Sequence[Task]) -> list[Task] | None:
    """Return copies of tasks that share no mutable data with the originals.

    Returns:
        The copies, or None if some data can't be copied, such as an open file.
    """
    try:
        return [Task(copy_data(task.data), copy_data(task.meta), task.lineage) for task in tasks]
    except Exception:  # noqa: BLE001 - the payload belongs to the user, and so does what it raises
        return None


def copy_data(data: Any) -> Any:  # noqa: ANN401 - the payload belongs to the user
    """Copy a payload. Return immutable payloads themselves.

    Raises:
        Exception: if the payload can't be copied.
    """
    if isinstance(data, _UNCHANGING) or _is_read_only(data):
        return data
    # Copy containers here, because `deepcopy` would also copy their read-only arrays.
    if type(data) is dict:
        return {key: copy_data(value) for key, value in data.items()}
    if type(data) in (list, tuple):
        return type(data)(map(copy_data, data))
    return copy.deepcopy(data)


def _is_read_only(data: object) -> bool:
    """Return whether the data is a read-only NumPy array. NumPy need not be installed."""
    is_writeable = getattr(getattr(data, "flags", None), "writeable", True)
    return is_writeable is False and type(data).__module__ == "numpy"


Dumps = Callable[..., bytes]
"""`pickle.dumps`, or a more capable function with the same arguments."""

_SCALARS = frozenset({bytes, str, int, float, bool, type(None)})
_FLAT = frozenset({dict, list, tuple})
# Maximum items to scan: a scan of more items would cost as much as pickling.
_FLAT_ITEMS = 16


# Maximum items to measure. The first items of a longer list serve as a sample.
_MEASURED_ITEMS = 64
_MEASURED_DEPTH = 3


def measure(data: Any, depth: int = _MEASURED_DEPTH) -> int:  # noqa: ANN401 - the user's payload
    """Estimate the size of a payload in bytes. Return 0 if inspecting the payload fails."""
    try:
        return _measure(data, depth)
    except Exception:  # noqa: BLE001 - the payload belongs to the user, and so does what it raises
        return 0


def _measure(data: Any, depth: int) -> int:  # noqa: ANN401 - the payload belongs to the user
    if isinstance(data, (bytes, bytearray, str)):
        return len(data)
    size = getattr(data, "nbytes", None)  # tables, arrays, and tensors have this attribute
    if isinstance(size, int):
        return size
    if not depth:
        return sys.getsizeof(data)
    if isinstance(data, Mapping):
        return _measure_items(data.values(), depth)
    if isinstance(data, (list, tuple, set, frozenset)):
        return _measure_items(data, depth)
    return sys.getsizeof(data) + _measure_items(getattr(data, "__dict__", {}).values(), depth)


def _measure_items(items: Collection[Any], depth: int) -> int:
    seen = [_measure(item, depth - 1) for item in islice(items, _MEASURED_ITEMS)]
    return sum(seen) * len(items) // len(seen) if seen else 0


def is_safe(data: Any) -> bool:  # noqa: ANN401 - the payload belongs to the user
    """Return whether a payload certainly survives transport to another process."""
    kind = type(data)
    if kind in _SCALARS or kind is pa.Table:
        return True
    if kind in _FLAT:
        items = [*data, *data.values()] if kind is dict else data
        return len(items) <= _FLAT_ITEMS and all(type(item) in _SCALARS for item in items)
    return kind.__module__ == "numpy" and _holds_numbers(data)


def separate(data: Any, seen: set[int]) -> Any:  # noqa: ANN401 - the payload belongs to the user
    """Return safe data in a form that shares no mutable part with other tasks.

    Args:
        seen: ids of arrays that other tasks have; each call may add an id.
    """
    if type(data) in (dict, list):
        return data.copy()  # all items are immutable
    if is_unchanging(data) or type(data) is tuple:
        return data
    if id(data) in seen:
        return data.copy()
    seen.add(id(data))  # arrays may be large and are rarely shared, so avoid a copy
    return data


def is_unchanging(data: Any) -> bool:  # noqa: ANN401 - the payload belongs to the user
    """Return whether a payload is immutable, so that tasks within a process can share it."""
    return type(data) in _SCALARS or type(data) is pa.Table


def dump(data: Any, dumps: Dumps) -> tuple[bytes, list[pickle.PickleBuffer]]:  # noqa: ANN401
    """Pickle a payload. Large parts become separate buffers that are not copied.

    Raises:
        BaseException: any error of the payload's own code.
    """
    buffers: list[pickle.PickleBuffer] = []
    return dumps(data, protocol=5, buffer_callback=buffers.append), buffers


def load(body: bytes, buffers: list[Any]) -> Any:  # noqa: ANN401 - the payload belongs to the user
    """Load a payload from the result of `dump`, or of a pickler without buffers.

    Raises:
        BaseException: any error of the payload's own code.
    """
    return pickle.loads(body, buffers=buffers)  # noqa: S301 - Ray would do the same


def _holds_numbers(data: Any) -> bool:  # noqa: ANN401 - something of numpy's
    return type(data).__name__ == "ndarray" and not data.dtype.hasobject
