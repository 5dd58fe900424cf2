"""Input as it was, for another try: a stage may change in place whatever it is handed.

What can't be changed is shared and not copied, so that a batch of tables or of arrays as Ray hands
them out costs nothing. Pure; it must not know why there is another try.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from strandline.plan.task import Task

_UNCHANGING = (pa.Table, pa.RecordBatch, bytes, str, int, float, complex, type(None))


def copy_tasks(tasks: Sequence[Task]) -> list[Task] | None:
    """Tasks with the same content that share nothing which can be changed.

    Returns:
        None where some of it can't be copied, such as an open file.
    """
    try:
        return [Task(copy_data(task.data), copy_data(task.meta), task.lineage) for task in tasks]
    except Exception:  # noqa: BLE001 - the payload belongs to the user, and so does what it raises
        return None


def copy_data(data: Any) -> Any:  # noqa: ANN401 - the payload belongs to the user
    """A payload with the same content; itself where it can't be changed.

    Raises:
        Exception: it can't be copied.
    """
    if isinstance(data, _UNCHANGING) or _is_read_only(data):
        return data
    # These are gone through here, since `deepcopy` would copy read-only arrays in them too.
    if type(data) is dict:
        return {key: copy_data(value) for key, value in data.items()}
    if type(data) in (list, tuple):
        return type(data)(map(copy_data, data))
    return copy.deepcopy(data)


def _is_read_only(data: object) -> bool:
    """Whether it is an array that refuses to be written to; `numpy` need not be there."""
    is_writeable = getattr(getattr(data, "flags", None), "writeable", True)
    return is_writeable is False and type(data).__module__ == "numpy"
