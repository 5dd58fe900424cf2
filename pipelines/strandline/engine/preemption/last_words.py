"""What a worker's process died of, by what Ray says of it and by the end of its log. Pure.

Ray knows an exit code where a process exits by itself, and nothing of signals: which one came, and
in which line, stands in the log alone. What is to blame is not known here.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from signal import Signals

from strandline_api.outcome.causes import Cause
from strandline_api.outcome.evidence import read_exit

LINES = 3  # most lines of a log that are shown
WIDTH = 160  # most letters of each
_EXIT = re.compile(r"exits with an exit code (\d+)\.(.*SIGTERM)?")
_SIGNAL = re.compile(r"\*\*\* (SIG[A-Z0-9]+) received")
_FATAL = re.compile(r"^Fatal Python error: (.+)$", re.MULTILINE)
_FRAME = re.compile(r'^  File "([^"]+)", line (\d+) in (\S+)$', re.MULTILINE)
# Where the dump of a crash begins, and what Ray itself writes into each log.
_DUMP = re.compile(r"^(\[[^\]]*\] logging\.cc|\*\*\* SIG|PC: @|Fatal Python error)", re.MULTILINE)
# How the dump of several threads begins each of them, and the file of ours that calls a stage.
_THREAD = re.compile(r"^(?:Current thread|Thread) 0x.*\(most recent call first\):$", re.MULTILINE)
_CALLER = "/strandline/engine/call/stage/"
FRAMES = 4  # most lines of a stack that are shown
_MARK = re.compile(r"^:(job_id|actor_name|task_name):")


def explain_death(sentence: str, log: str | None) -> str:
    """Return in words what a process died of, and what it said last.

    Args:
        sentence: all that Ray says of it.
        log: the end of its log; None: it can't be read from here.
    """
    words = _find_cause(sentence, log or "")
    if log is None:
        return f"{words}; its log is on its node"
    lines = _pick_lines(log)
    return f"{words}; the end of its log: {' / '.join(lines)}" if lines else words


def find_death_cause(sentence: str, log: str) -> Cause:
    """Return the cause of a death: a crash and an exit are the program's, a kill is not.

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
    """Return the cause of a worker's end, by its exit code, or a signal below zero; None: unknown.

    What a worker exits with is a stage's own number, not one of the contract.
    """
    if code is None:
        return Cause.KILLED
    seen = read_exit(code) if code < 0 else None
    return seen.cause if seen else Cause.APPLICATION_ERROR


def explain_hang(words: str, stacks: str) -> str:
    """Return why a worker is taken out that takes too long, and where its stage is.

    Args:
        stacks: of its threads, as the interpreter writes them; empty where they are not known.
    """
    lines = next(filter(None, map(_list_lines, _THREAD.split(stacks)[1:])), ())
    return f"{words}, in {', called from '.join(lines)}" if lines else words


def _list_lines(stack: str) -> list[str]:
    """Return the lines of a stage in a thread's stack, the innermost first."""
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
    # A SIGKILL, and a stage that leaves by `os._exit`, leave no words anywhere.
    return "its process was killed (SIGKILL), or left by os._exit"


def _find_line(log: str) -> str:
    """Return the innermost line of Python in the dump of a crash."""
    frame = _FRAME.search(log)
    if frame is None:
        return ""
    return f" in {_name_line(*frame.groups())}"


def _pick_lines(log: str) -> list[str]:
    """Return the last lines that the process has printed before it died."""
    dump = _DUMP.search(log)
    text = log[: dump.start()] if dump else log
    lines = [line.strip() for line in text.splitlines() if line.strip() and not _MARK.match(line)]
    shown = ("".join(filter(str.isprintable, line)) for line in lines[-LINES:])
    return [line if len(line) <= WIDTH else f"{line[:WIDTH]}…" for line in shown]
