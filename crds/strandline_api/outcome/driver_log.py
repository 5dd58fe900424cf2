"""Names of drivers' logs, one file per attempt, below the folder of the pipeline.

The driver's parent chooses the name, a status stores it, and a command reads the file. Readers
accept only names of this form, whatever the status contains. This module must not depend on the
content of logs.
"""

import re
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from strandline_api.notation.times import format_time

LOGS: Final = "logs"
SUFFIX: Final = ".log"
# A log that grows too long starts over, and the previous part is kept under this suffix.
BEFORE_SUFFIX: Final = ".log.1"
# Turns `2025-11-25T07:11:00Z` into `20251125T071100Z`.
_NO_MARKS = str.maketrans("", "", "-:")
# Matches `logs/20251125T071100.123Z.log`, but no path with `..` in a forged status.
_NAME = re.compile(rf"{LOGS}/[0-9]{{8}}T[0-9]{{6}}\.[0-9]{{3}}Z{re.escape(SUFFIX)}")


def name_log(now: float) -> str:
    """Return the name of the log of an attempt that starts at a time, in seconds since the epoch.

    Names sort by time.
    """
    seconds, rest = divmod(round(now * 1000), 1000)
    stamp = format_time(seconds).translate(_NO_MARKS).rstrip("Z")
    return f"{LOGS}/{stamp}.{rest:03d}Z{SUFFIX}"


def read_log_name(value: object) -> str:
    """Return the name of a log, or an empty string if the value has another form."""
    return value if isinstance(value, str) and _NAME.fullmatch(value) else ""


LogFile = Annotated[str, Field(max_length=64), BeforeValidator(read_log_name)]
