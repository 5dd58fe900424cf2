"""Names of driver logs. The pipeline's folder has one log file per attempt.

The driver's parent chooses the name, the status stores it, and a command reads the file. Readers
accept only names of this form, so a forged status cannot name other files. This module must not
depend on the content of logs.
"""

import re
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from strandline_api.notation.times import format_time

LOGS: Final = "logs"
SUFFIX: Final = ".log"
# Suffix of the rotated log: a log that grows too long starts over, and its old content moves here.
BEFORE_SUFFIX: Final = ".log.1"
# Turns `2025-11-25T07:11:00Z` into `20251125T071100Z`.
_NO_MARKS = str.maketrans("", "", "-:")
# Matches `logs/20251125T071100.123Z.log`, but no path with `..` in a forged status.
_NAME = re.compile(rf"{LOGS}/[0-9]{{8}}T[0-9]{{6}}\.[0-9]{{3}}Z{re.escape(SUFFIX)}")


def name_log(now: float) -> str:
    """Return the name of the log for an attempt that starts at the given time.

    Names sort by time. The time is in seconds since the epoch.
    """
    seconds, rest = divmod(round(now * 1000), 1000)
    stamp = format_time(seconds).translate(_NO_MARKS).rstrip("Z")
    return f"{LOGS}/{stamp}.{rest:03d}Z{SUFFIX}"


def read_log_name(value: object) -> str:
    """Return the name of a log, or an empty string if the value has another form."""
    return value if isinstance(value, str) and _NAME.fullmatch(value) else ""


LogFile = Annotated[str, Field(max_length=64), BeforeValidator(read_log_name)]
