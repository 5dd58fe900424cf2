"""Exit codes by which a driver process reports its end.

The runtime exits with these codes and the operator reads them, so their meaning is part of the
contract and never changes. This module must not depend on the programs that exit or read the code.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every `strandline` command. The system adds 137 and 143 for kills."""

    COMPLETE = 0
    APPLICATION_ERROR = 1
    SOURCES_FAILED = 3
    QUARANTINE_EXCEEDED = 4
    REQUIREMENTS_NOT_MET = 5
    BUDGET_SPENT = 6
    # From here on, the codes follow `sysexits.h`: 64 EX_USAGE, 65 EX_DATAERR, 69 EX_UNAVAILABLE, 70
    # EX_SOFTWARE, 73 EX_CANTCREAT, 75 EX_TEMPFAIL.
    BAD_SPEC = 64
    LEDGER_MISMATCH = 65
    LEDGER_IN_USE = 69
    NOT_DETERMINISTIC = 70
    VOLUME_UNUSABLE = 73
    INTERRUPTED = 75

    @property
    def meaning(self) -> str:
        """Meaning of the code for the run, in one sentence."""
        return _MEANINGS[self]

    @property
    def advice(self) -> str:
        """One or two sentences for people about what to do on a local machine."""
        return _ADVICE[self]


_MEANINGS = {
    ExitCode.COMPLETE: "Every source is finished.",
    ExitCode.APPLICATION_ERROR: "A stage or the program itself raised an error.",
    ExitCode.SOURCES_FAILED: "The run reached its end, but some sources failed.",
    ExitCode.QUARANTINE_EXCEEDED: "More sources are quarantined than the pipeline tolerates.",
    ExitCode.REQUIREMENTS_NOT_MET: (
        "The run is complete, but does not meet what the pipeline requires before publishing."
    ),
    ExitCode.BUDGET_SPENT: "A stage that sends requests to a model has spent its budget.",
    ExitCode.BAD_SPEC: "The command line or the pipeline file is wrong.",
    ExitCode.LEDGER_MISMATCH: (
        "The ledger belongs to another pipeline or format, or it is damaged."
    ),
    ExitCode.LEDGER_IN_USE: "Another driver holds the ledger; run the pipeline again after that "
    "driver has ended.",
    ExitCode.NOT_DETERMINISTIC: "A stage gave different results for the same input.",
    ExitCode.VOLUME_UNUSABLE: (
        "The volume cannot be used because of its file system, space or permissions."
    ),
    ExitCode.INTERRUPTED: (
        "The run was interrupted and has saved its work; the next attempt continues from there."
    ),
}
_ADVICE = {
    ExitCode.COMPLETE: "Nothing. `strandline verify FILE` checks the output.",
    ExitCode.APPLICATION_ERROR: (
        "Fix the error that the last sentence names, and run again. `strandline run FILE --engine "
        "inline --debug` shows the traceback."
    ),
    ExitCode.SOURCES_FAILED: (
        "`strandline failures FILE` groups them by reason. Fix the sources and repeat the same "
        "`run`, which retries the failed sources. If you edited a stage, add `--set "
        "onChange=Continue`."
    ),
    ExitCode.QUARANTINE_EXCEEDED: (
        "`strandline ledger quarantine list FILE` lists them with the reasons. Fix them, then "
        "`strandline ledger quarantine release FILE --all`, or raise `quarantine.tolerate`."
    ),
    ExitCode.REQUIREMENTS_NOT_MET: (
        "The last sentence names each requirement. `latest` still points to the previous "
        "publication. Fix the data or the stages, or change `publish.require`, and run again."
    ),
    ExitCode.BUDGET_SPENT: (
        "Raise `budget` of the stage, and run again: requests that have answers are not repeated."
    ),
    ExitCode.BAD_SPEC: (
        "Correct the error that the sentence names. `strandline validate FILE` only checks the "
        "file."
    ),
    ExitCode.LEDGER_MISMATCH: (
        "After `run`: undo the change, or choose what happens to finished sources (`--set "
        "onChange=Redo`, `Restart` or `Continue`). If the ledger is damaged, restore a copy. After "
        "`verify`: `strandline repair FILE`, then run again."
    ),
    ExitCode.LEDGER_IN_USE: (
        "Wait for the other run, or end it: `strandline drain FILE --wait`. Then run again."
    ),
    ExitCode.NOT_DETERMINISTIC: (
        "Make the stage depend on its input alone: fixed seeds, no clock. "
        "Then run with `--set onChange=Restart`."
    ),
    ExitCode.VOLUME_UNUSABLE: (
        "Free space, or correct the permissions; `strandline doctor FILE` checks both. Then run "
        "again."
    ),
    ExitCode.INTERRUPTED: "Run the pipeline again: the run continues from there.",
}
