"""What a container that prepares or checks something leaves to the operator: why it could not.

It is an outcome line, as drivers leave one, so that a sentence of ours is told from whatever else
a container says as it ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from strandline.cli.app.program import explain
from strandline.plan.errors import code_of
from strandline.run.supervise.status_server import leave_message
from strandline_api.outcome.driver_outcome import DriverOutcome


@contextmanager
def leaving_message() -> Iterator[None]:
    """Leave in the pod's status why the block could not be done."""
    try:
        yield
    except Exception as error:
        message = "; ".join(explain(error))
        leave_message(DriverOutcome(exit_code=int(code_of(error)), message=message))
        raise
