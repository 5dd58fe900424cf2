"""Message of a failed container that prepares or checks something, addressed to the operator.

The message is an outcome line like those of drivers, so the operator can distinguish it from other
output at a container's end.
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
    """Write the reason of a failure in the block to the pod's status."""
    try:
        yield
    except Exception as error:
        message = "; ".join(explain(error))
        leave_message(DriverOutcome(exit_code=int(code_of(error)), message=message))
        raise
