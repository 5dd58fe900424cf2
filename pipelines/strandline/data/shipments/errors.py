"""Why a data set is not pushed."""

from __future__ import annotations

from strandline.plan.errors import StrandlineError
from strandline_api.outcome.exit_codes import ExitCode


class UnfitForPushError(StrandlineError):
    """What is to be pushed is not what a complete run has left."""

    exit_code = ExitCode.LEDGER_MISMATCH


class RequirementsError(StrandlineError):
    """The last run did not meet what the pipeline requires before publishing."""

    exit_code = ExitCode.REQUIREMENTS_NOT_MET


class BadTargetError(StrandlineError):
    """The target is written in a way that names none."""

    exit_code = ExitCode.BAD_SPEC


class TargetRefusedError(StrandlineError):
    """The target does not take the data set."""

    exit_code = ExitCode.VOLUME_UNUSABLE
