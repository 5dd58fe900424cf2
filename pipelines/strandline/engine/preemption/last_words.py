"""Explains the death of a worker's process from Ray's message and the end of the worker's log.

Ray reports the exit code of a process that exits by itself. Only the log shows the signal that
killed a process, and the line that was running. This module has no side effects. The module does
not decide what is to blame.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from signal import Signals

from strandline_api.outcome.causes import Cause
from strandline_api.outcome.evidence import read_exit

LINES = 3  # maximum log lines shown
WIDTH = 160  # maximum characters per line
_EXIT = re.compile(r"exits with an exit code (\d+)\.(.*SIGTERM)?")
_SIGNAL = re.compile(r"\*\*\* (SIG[A-Z0-9]+) received")
_FATAL = re.compile(r"^Fatal Python error: (.+)$", re.MULTILINE)
_FRAME = re.compile(r'^  File "([^"]+)", line (\d+) in (\S+)$', re.MULTILINE)
# Matches the start of a crash dump, and lines that Ray itself writes into each log.
_DUMP = re.compile(r"^(\[[^\]]*\] logging\.cc|\*\*\* SIG|PC: @|Fatal Python error)", re.MULTILINE)
# Matches the first line of each thread in a dump. `_CALLER` is the folder of our code that calls a
# stage.
_THREAD = re.compile(r"^(?:Current thread|Thread) 0x.*\(most recent call first\):$", re.MULTILINE)
_CALLER = "/strandline/engine/call/stage/"
FRAMES = 4  # maximum stack lines shown
_MARK = re.compile(r"^:(job_id|actor_name|task_name):")


def explain_death(sentence: str, log: str | None) -> str:
    """Describe why a process died, with its last output.

    Args:
        sentence: Ray's whole message.
        log: the end of the log; None if the log can't be read from here.
    """
    words = _find_cause(sentence, log or "")
    if log is None:
        return f"{words}; its log is on its node"
    lines = _pick_lines(log)
    return f"{words}; the end of its log: {' / '.join(lines)}" if lines else words


def find_death_cause(sentence: str, log: str) -> Cause:
    """Return the cause of a death. Crashes and exits are the program's fault, a kill is not.

    Args:
        sentence, log: see `explain_death`.
    """
    signal, code = _SIGNAL.search(log), _EXIT.search(sentence)
    if signal:
        return judge_end(-Signals[signal[1]])
    if _FATAL.search(log):
        return Cause.APPLICATION_ERROR
    return judge_end(int(code[1])) if code and not code[2] else Cause.KILLED


def judge_end(code: int | None) -> Cause:
    """Return the cause of a worker's end from its exit code.

    A negative code is a signal, and None means unknown. Positive codes come from the stage, and are
    unrelated to Strandline's own exit codes.
    """
    if code is None:
        return Cause.KILLED
    seen = read_exit(code) if code < 0 else None
    return seen.cause if seen else Cause.APPLICATION_ERROR


def explain_hang(words: str, stacks: str) -> str:
    """Explain why a hanging worker is removed, and where its stage hangs.

    Args:
        words: the reason for the removal.
        stacks: the stacks of the worker's threads, as the interpreter writes them; empty if
            unknown.
    """
    lines = next(filter(None, map(_list_lines, _THREAD.split(stacks)[1:])), ())
    return f"{words}, in {', called from '.join(lines)}" if lines else words


def explain_crash(words: str, stack: str) -> str:
    """Explain how a worker died, and in which line of Python code.

    Args:
        words: how its process ended.
        stack: the stack that the interpreter wrote; empty if there is none.
    """
    return f"{words}{_find_line(stack)}"


def _list_lines(stack: str) -> list[str]:
    """Return the lines of the stage's code in a thread's stack, innermost first."""
    frames = _FRAME.findall(stack)
    ours = [number for number, (path, _, _) in enumerate(frames) if _CALLER in path]
    return [_name_line(*frame) for frame in frames[: ours[0]][:FRAMES]] if ours else []


def _name_line(path: str, line: str, function: str) -> str:
    return f"{function} ({'/'.join(PurePath(path).parts[-2:])}:{line})"


def _find_cause(sentence: str, log: str) -> str:
    signal, fatal = _SIGNAL.search(log), _FATAL.search(log)
    if signal or fatal:
        name = signal[1] if signal else fatal[1] if fatal else ""
        return f"its process died of {name}{_find_line(log)}"
    code = _EXIT.search(sentence)
    if code:
        return "its process was ended by SIGTERM" if code[2] else f"its process exited: {code[1]}"
    # SIGKILL and `os._exit` leave no message.
    return "its process was killed (SIGKILL), or called os._exit"


def _find_line(log: str) -> str:
    """Return the innermost line of Python code in a crash dump."""
    frame = _FRAME.search(log)
    if frame is None:
        return ""
    return f" in {_name_line(*frame.groups())}"


def _pick_lines(log: str) -> list[str]:
    """Return the last lines that the process printed before it died."""
    dump = _DUMP.search(log)
    text = log[: dump.start()] if dump else log
    lines = [line.strip() for line in text.splitlines() if line.strip() and not _MARK.match(line)]
    shown = ("".join(filter(str.isprintable, line)) for line in lines[-LINES:])
    return [line if len(line) <= WIDTH else f"{line[:WIDTH]}…" for line in shown]
