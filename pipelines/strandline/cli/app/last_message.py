"""Reports the failure of an init or check container to the operator.

The message is an outcome line like those of drivers, so that the operator can distinguish it from
other output at the end of a container.
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
    """If the block fails, write the reason to the pod's status."""
    try:
        yield
    except Exception as error:
        message = "; ".join(explain(error))
        leave_message(DriverOutcome(exit_code=int(code_of(error)), message=message))
        raise
