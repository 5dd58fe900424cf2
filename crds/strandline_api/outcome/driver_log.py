"""Where a driver's log lies below the folder of its pipeline, a file for each attempt.

The volume names it, a status keeps the name, and a command reads the file; whatever stands where a
name is expected, no more than such a name is taken from it. This room must not know what is logged.
"""

import re
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from strandline_api.notation.times import format_time

LOGS: Final = "logs"
SUFFIX: Final = ".log"
# A log that grows too long begins again, and what was before it stays beside it.
BEFORE_SUFFIX: Final = ".log.1"
_NO_MARKS = str.maketrans("", "", "-:")
_NAME = re.compile(rf"{LOGS}/[0-9]{{8}}T[0-9]{{6}}\.[0-9]{{3}}Z{re.escape(SUFFIX)}")


def name_log(now: float) -> str:
    """Name the log of an attempt that begins at that time, in seconds since the epoch.

    Names sort by time.
    """
    seconds, rest = divmod(round(now * 1000), 1000)
    stamp = format_time(seconds).translate(_NO_MARKS).rstrip("Z")
    return f"{LOGS}/{stamp}.{rest:03d}Z{SUFFIX}"


def read_log_name(value: object) -> str:
    """Return the name of a log; empty where anything else stands."""
    return value if isinstance(value, str) and _NAME.fullmatch(value) else ""


LogFile = Annotated[str, Field(max_length=64), BeforeValidator(read_log_name)]
