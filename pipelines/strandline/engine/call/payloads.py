"""A payload of the user's as bytes, so that what can't be pickled or read again fails alone.

Ray pickles a whole answer at once, and one bad payload in it would take all the others along. So
what may not cross as it is gets pickled here, apart. Pure; the pickler comes in as an argument.
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
    """Return tasks with the same content that share nothing which can be changed.

    Returns:
        None where some of it can't be copied, such as an open file.
    """
    try:
        return [Task(copy_data(task.data), copy_data(task.meta), task.lineage) for task in tasks]
    except Exception:  # noqa: BLE001 - the payload belongs to the user, and so does what it raises
        return None


def copy_data(data: Any) -> Any:  # noqa: ANN401 - the payload belongs to the user
    """Return a payload with the same content; itself where it can't be changed.

    Raises:
        Exception: it can't be copied.
    """
    if isinstance(data, _UNCHANGING) or _is_read_only(data):
        return data
    # Dicts are gone through here, since `deepcopy` would copy read-only arrays in them too.
    if type(data) is dict:
        return {key: copy_data(value) for key, value in data.items()}
    if type(data) in (list, tuple):
        return type(data)(map(copy_data, data))
    return copy.deepcopy(data)


def _is_read_only(data: object) -> bool:
    """Return whether it is an array that refuses to be written to; `numpy` need not be there."""
    is_writeable = getattr(getattr(data, "flags", None), "writeable", True)
    return is_writeable is False and type(data).__module__ == "numpy"


Dumps = Callable[..., bytes]
"""`pickle.dumps`, or one that takes the same arguments and can do more."""

_SCALARS = frozenset({bytes, str, int, float, bool, type(None)})
_FLAT = frozenset({dict, list, tuple})
# Looking through more than that costs as much as pickling it.
_FLAT_ITEMS = 16


# First items of a long list show how large the others are.
_MEASURED_ITEMS = 64
_MEASURED_DEPTH = 3


def measure(data: Any, depth: int = _MEASURED_DEPTH) -> int:  # noqa: ANN401 - the user's payload
    """Return about how many bytes a payload takes; 0 where it refuses to be looked at."""
    try:
        return _measure(data, depth)
    except Exception:  # noqa: BLE001 - the payload belongs to the user, and so does what it raises
        return 0


def _measure(data: Any, depth: int) -> int:  # noqa: ANN401 - the payload belongs to the user
    if isinstance(data, (bytes, bytearray, str)):
        return len(data)
    size = getattr(data, "nbytes", None)  # tables, arrays, tensors
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
    """Return whether it is known to cross to another process, and to be read there."""
    kind = type(data)
    if kind in _SCALARS or kind is pa.Table:
        return True
    if kind in _FLAT:
        items = [*data, *data.values()] if kind is dict else data
        return len(items) <= _FLAT_ITEMS and all(type(item) in _SCALARS for item in items)
    return kind.__module__ == "numpy" and _holds_numbers(data)


def separate(data: Any, seen: set[int]) -> Any:  # noqa: ANN401 - the payload belongs to the user
    """Return what is safe to cross so that nothing else has it too which can be changed.

    Args:
        seen: ids of arrays that others have; it grows.
    """
    if type(data) in (dict, list):
        return data.copy()  # all that is in it never changes
    if is_unchanging(data) or type(data) is tuple:
        return data
    if id(data) in seen:
        return data.copy()
    seen.add(id(data))  # an array may be large, and is seldom another task's too
    return data


def is_unchanging(data: Any) -> bool:  # noqa: ANN401 - the payload belongs to the user
    """Return whether it can be handed on within a process: no holder can change it for another."""
    return type(data) in _SCALARS or type(data) is pa.Table


def dump(data: Any, dumps: Dumps) -> tuple[bytes, list[pickle.PickleBuffer]]:  # noqa: ANN401
    """Dump a payload as bytes, and the large parts that need not be copied into them.

    Raises:
        BaseException: whatever the payload's own code raises.
    """
    buffers: list[pickle.PickleBuffer] = []
    return dumps(data, protocol=5, buffer_callback=buffers.append), buffers


def load(body: bytes, buffers: list[Any]) -> Any:  # noqa: ANN401 - the payload belongs to the user
    """Return the inverse of `dump`, or of a pickler without buffers.

    Raises:
        BaseException: whatever the payload's own code raises.
    """
    return pickle.loads(body, buffers=buffers)  # noqa: S301 - Ray would do the same


def _holds_numbers(data: Any) -> bool:  # noqa: ANN401 - something of numpy's
    return type(data).__name__ == "ndarray" and not data.dtype.hasobject
